"""PutLane: an operator makes or changes a lane."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import PutLaneRequest, PutLaneResponse
from perdure_store.apply.catalogue import Catalogue
from perdure_store.lanes import Asked, put_lane
from perdure_store.pool import acquire

from perdure_coordinator.lane_messages import lane_change, lane_message


async def change_lane(
    spare: asyncpg.Pool, catalogue: Catalogue, request: PutLaneRequest
) -> PutLaneResponse:
    """Store it, and count by it here at once; other processes do so when they read lanes again."""
    asked = Asked(request.actor, request.reason)
    async with acquire(spare) as connection:
        lane, created = await put_lane(connection, lane_change(request), asked)
        await catalogue.refresh(connection)
    return PutLaneResponse(lane=lane_message(lane), created=created)
