"""CreateKey, RotateKey, RevokeKey and NoteKeyUse; the door made the secrets and keeps them."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1 import key_service_pb2 as pb
from perdure_store import keys
from perdure_store.pool import acquire


async def create(spare: asyncpg.Pool, request: pb.CreateKeyRequest) -> pb.CreateKeyResponse:
    """Make a key."""
    asked = keys.KeyAsked(
        key_id=request.key_id,
        org=request.org,
        name=request.name,
        roles=list(request.roles),
        member=request.member or None,
        scopes=list(request.scopes),
        lasts=request.lasts or None,
        rate=request.rate or None,
        burst=request.burst or None,
    )
    async with acquire(spare) as connection:
        await keys.create_key(connection, asked, _secret(request.secret), by=request.asked_by)
    return pb.CreateKeyResponse()


async def rotate(spare: asyncpg.Pool, request: pb.RotateKeyRequest) -> pb.RotateKeyResponse:
    """Give a key another secret."""
    async with acquire(spare) as connection:
        await keys.rotate_key(
            connection,
            request.org,
            request.key_id,
            _secret(request.secret),
            overlap=request.overlap,
            by=request.asked_by,
        )
    return pb.RotateKeyResponse()


async def revoke(spare: asyncpg.Pool, request: pb.RevokeKeyRequest) -> pb.RevokeKeyResponse:
    """End a key."""
    async with acquire(spare) as connection:
        await keys.revoke_key(
            connection, request.org, request.key_id, by=request.asked_by, reason=request.reason
        )
    return pb.RevokeKeyResponse()


async def note_use(spare: asyncpg.Pool, request: pb.NoteKeyUseRequest) -> pb.NoteKeyUseResponse:
    """Note when secrets were last used."""
    async with acquire(spare) as connection:
        await keys.mark_used(connection, request.prefixes)
    return pb.NoteKeyUseResponse()


def _secret(message: pb.KeySecret) -> keys.Secret:
    return keys.Secret(message.prefix, message.digest)
