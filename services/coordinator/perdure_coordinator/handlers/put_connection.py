"""PutConnection: an account at a provider is made, or changed."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import (
    PutConnectionRequest,
    PutConnectionResponse,
)
from perdure_store.connections import Settings
from perdure_store.connections import put_connection as put
from perdure_store.pool import acquire

from perdure_coordinator.sealing import Keys, seal_credentials


async def put_connection(
    spare: asyncpg.Pool, keys: Keys, request: PutConnectionRequest
) -> PutConnectionResponse:
    """Store the settings, with the credentials sealed."""
    sealed = None
    if request.credentials:
        sealed = await seal_credentials(keys, request.org, request.name, request.credentials)
    settings = Settings(
        name=request.name,
        base_url=request.base_url,
        scheme=request.scheme,
        sealed=sealed,
        slots=request.slots or None,
        rate=request.rate or None,
        burst=request.burst,
        max_failures=request.max_failures,
        open_for=request.open_ms / 1000,
        probe_path=request.probe_path or None,
    )
    async with acquire(spare) as connection:
        created = await put(connection, request.org, settings, actor=request.actor)
    return PutConnectionResponse(created=created)
