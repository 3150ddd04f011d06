"""ListLanes: the lanes as they are now."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import Lane as LaneMessage
from perdure_contracts.internal.v1.control_service_pb2 import ListLanesResponse
from perdure_machine.lanes import Lane
from perdure_store.lanes import load_lanes
from perdure_store.pool import acquire


async def list_lanes(spare: asyncpg.Pool) -> ListLanesResponse:
    """Read the lanes."""
    async with acquire(spare) as connection:
        lanes = await load_lanes(connection)
    return ListLanesResponse(lanes=map(_message, lanes.values()))


def _message(lane: Lane) -> LaneMessage:
    return LaneMessage(
        lane=lane.name,
        shards=lane.shards,
        stream_ceiling=lane.stream_ceiling,
        lease_ms=int(lane.lease * 1000),
    )
