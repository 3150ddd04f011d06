"""SweepConnections: blocked steps that may go, places and parked steps that crashes left behind."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.connections_pb2 import (
    SweepConnectionsRequest,
    SweepConnectionsResponse,
)
from perdure_store.causes import send_forgotten
from perdure_store.connections import free_leaked, unblock
from perdure_store.pool import acquire

MAX_MENDED = 500
"""Places, and causes, that one call mends at most."""


async def sweep_connections(
    spare: asyncpg.Pool, request: SweepConnectionsRequest
) -> SweepConnectionsResponse:
    """Look again under the locks, and do it."""
    freed = resumed = 0
    async with acquire(spare) as connection:
        if request.mend:
            freed = await free_leaked(connection, limit=MAX_MENDED)
            resumed = await send_forgotten(connection, limit=MAX_MENDED)
        unblocked = await unblock(connection)
    return SweepConnectionsResponse(unblocked=unblocked, freed=freed, resumed=resumed)
