"""ListLanes: the lanes as they are now."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import ListLanesResponse
from perdure_store.lanes import load_lanes
from perdure_store.pool import acquire

from perdure_coordinator.lane_messages import lane_message


async def list_lanes(spare: asyncpg.Pool) -> ListLanesResponse:
    """Read the lanes."""
    async with acquire(spare) as connection:
        lanes = await load_lanes(connection)
    return ListLanesResponse(lanes=map(lane_message, lanes.values()))
