"""DeleteLane: an operator removes a lane that nothing uses."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import (
    DeleteLaneRequest,
    DeleteLaneResponse,
)
from perdure_store.lanes import Asked
from perdure_store.lanes import delete_lane as delete
from perdure_store.pool import acquire


async def delete_lane(spare: asyncpg.Pool, request: DeleteLaneRequest) -> DeleteLaneResponse:
    """Remove it."""
    async with acquire(spare) as connection:
        await delete(connection, request.lane, Asked(request.actor, request.reason))
    return DeleteLaneResponse()
