"""The service of keys and members; each RPC delegates to its handler."""

from __future__ import annotations

from typing import Any

import asyncpg
import grpc
from perdure_contracts.internal.v1 import key_service_pb2 as pb
from perdure_contracts.internal.v1.key_service_pb2_grpc import KeyServiceServicer

from perdure_coordinator.handlers import change_keys, change_members
from perdure_coordinator.handlers.check_key import check_key

Context = grpc.aio.ServicerContext[Any, Any]


class Keys(KeyServiceServicer):
    """Keys and members, as admins change them, and what a key may do."""

    def __init__(self, spare: asyncpg.Pool) -> None:
        self._spare = spare

    async def CreateKey(
        self, request: pb.CreateKeyRequest, context: Context
    ) -> pb.CreateKeyResponse:
        """See `handlers/change_keys.py`."""
        return await change_keys.create(self._spare, request)

    async def RotateKey(
        self, request: pb.RotateKeyRequest, context: Context
    ) -> pb.RotateKeyResponse:
        """See `handlers/change_keys.py`."""
        return await change_keys.rotate(self._spare, request)

    async def RevokeKey(
        self, request: pb.RevokeKeyRequest, context: Context
    ) -> pb.RevokeKeyResponse:
        """See `handlers/change_keys.py`."""
        return await change_keys.revoke(self._spare, request)

    async def NoteKeyUse(
        self, request: pb.NoteKeyUseRequest, context: Context
    ) -> pb.NoteKeyUseResponse:
        """See `handlers/change_keys.py`."""
        return await change_keys.note_use(self._spare, request)

    async def PutMember(
        self, request: pb.PutMemberRequest, context: Context
    ) -> pb.PutMemberResponse:
        """See `handlers/change_members.py`."""
        return await change_members.put(self._spare, request)

    async def RemoveMember(
        self, request: pb.RemoveMemberRequest, context: Context
    ) -> pb.RemoveMemberResponse:
        """See `handlers/change_members.py`."""
        return await change_members.remove(self._spare, request)

    async def CheckKey(self, request: pb.CheckKeyRequest, context: Context) -> pb.CheckKeyResponse:
        """See `handlers/check_key.py`."""
        return await check_key(self._spare, request)
