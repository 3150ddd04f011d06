"""PutMember and RemoveMember."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1 import key_service_pb2 as pb
from perdure_store import members
from perdure_store.pool import acquire


async def put(spare: asyncpg.Pool, request: pb.PutMemberRequest) -> pb.PutMemberResponse:
    """Make a member or change its roles."""
    async with acquire(spare) as connection:
        await members.put_member(
            connection, request.org, request.member, list(request.roles), by=request.asked_by
        )
    return pb.PutMemberResponse()


async def remove(spare: asyncpg.Pool, request: pb.RemoveMemberRequest) -> pb.RemoveMemberResponse:
    """Remove a member, whose keys end."""
    async with acquire(spare) as connection:
        await members.remove_member(
            connection, request.org, request.member, by=request.asked_by, reason=request.reason
        )
    return pb.RemoveMemberResponse()
