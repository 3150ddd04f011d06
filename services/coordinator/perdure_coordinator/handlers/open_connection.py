"""OpenConnection: a handler's step asks for an account that its node need not name."""

from __future__ import annotations

import logging

import asyncpg
from perdure_contracts.internal.v1.connections_pb2 import (
    OPEN_CONNECTION_STATUS_LOST,
    OPEN_CONNECTION_STATUS_MISSING,
    OPEN_CONNECTION_STATUS_OPENED,
    OPEN_CONNECTION_STATUS_UNUSABLE,
    OpenConnectionRequest,
    OpenConnectionResponse,
)
from perdure_contracts.internal.v1.dispatch_pb2 import ConnectionGrant, StepLease
from perdure_runtime.errors import Internal
from perdure_runtime.logs import log_failure
from perdure_store.connections import SealedConnection
from perdure_store.leases import is_held
from perdure_store.pool import acquire

from perdure_coordinator.credentials import Credentials
from perdure_coordinator.messages import held_lease

_logger = logging.getLogger(__name__)


async def open_connection(
    spare: asyncpg.Pool, credentials: Credentials, request: OpenConnectionRequest
) -> OpenConnectionResponse:
    """Open it for the holder of the lease, and for nobody else."""
    if not await _holds(spare, request.lease):
        return OpenConnectionResponse(status=OPEN_CONNECTION_STATUS_LOST)
    found = await credentials.find(request.lease.org, request.name)
    if found is None:
        return OpenConnectionResponse(status=OPEN_CONNECTION_STATUS_MISSING)
    if why := _why_unusable(found):
        return _unusable(found, why)
    try:
        opened = await credentials.opened(found)
    except Internal as error:
        log_failure(_logger, "credentials.unreadable", error, connection=found.name)
        return _unusable(found, error.message)
    return OpenConnectionResponse(status=OPEN_CONNECTION_STATUS_OPENED, connection=opened)


async def _holds(spare: asyncpg.Pool, lease: StepLease) -> bool:
    async with acquire(spare) as connection:
        return await is_held(connection, held_lease(lease, "lease"))


def _unusable(found: SealedConnection, why: str) -> OpenConnectionResponse:
    known = ConnectionGrant(name=found.name, generation=found.generation)
    return OpenConnectionResponse(status=OPEN_CONNECTION_STATUS_UNUSABLE, why=why, connection=known)


def _why_unusable(found: SealedConnection) -> str:
    if found.disabled:
        return "somebody disabled it"
    return "its credentials were refused: reconnect it" if found.refused else ""
