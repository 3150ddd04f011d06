"""CheckKey: whom a key stands for, asked by services that have no database."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.key_service_pb2 import CheckKeyRequest, CheckKeyResponse
from perdure_store.key_holders import holder_of
from perdure_store.keys import find_secrets
from perdure_store.pool import acquire

GOOD_FOR = 2.0
"""How long an answer may be kept, seconds: a revoked key works no longer than that."""


async def check_key(spare: asyncpg.Pool, request: CheckKeyRequest) -> CheckKeyResponse:
    """Find the secret and tell who has it."""
    async with acquire(spare) as connection:
        found = await find_secrets(connection, [request.secret.prefix])
    known = found[0] if found else None
    holder = holder_of(known, request.secret.digest)
    left = known.seconds_left if known is not None else None
    return CheckKeyResponse(
        org=holder.org,
        actor=holder.actor,
        permissions=sorted(holder.permissions),
        good_for=GOOD_FOR if left is None else min(GOOD_FOR, left),
        key_id=holder.key_id,
        rate=holder.rate or 0.0,
        burst=holder.burst or 0,
    )
