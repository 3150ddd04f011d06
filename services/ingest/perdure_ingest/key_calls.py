"""What ingest asks the coordinator about keys and members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import grpc
from perdure_contracts.internal.v1 import key_service_pb2 as pb
from perdure_contracts.internal.v1 import key_service_pb2_grpc
from perdure_runtime.fail_points import declare
from perdure_runtime.rpc.client import RpcClient

CHANGE_KEYS = declare("ingest.change_keys")

CALL_TIMEOUT = 15.0
"""Longest time that one internal call may take with its repeats, seconds."""

Request = TypeVar("Request")
Response = TypeVar("Response")


class KeyCalls:
    """The coordinator's KeyService behind plain methods; repeating any of them changes nothing."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._stub = key_service_pb2_grpc.KeyServiceStub(client.channel)

    async def create(self, request: pb.CreateKeyRequest) -> None:
        """Make a key."""
        await self._call(self._stub.CreateKey, request)

    async def rotate(self, request: pb.RotateKeyRequest) -> None:
        """Give a key another secret."""
        await self._call(self._stub.RotateKey, request)

    async def revoke(self, request: pb.RevokeKeyRequest) -> None:
        """End a key."""
        await self._call(self._stub.RevokeKey, request)

    async def put_member(self, request: pb.PutMemberRequest) -> None:
        """Make a member or change its roles."""
        await self._call(self._stub.PutMember, request)

    async def remove_member(self, request: pb.RemoveMemberRequest) -> None:
        """Remove a member."""
        await self._call(self._stub.RemoveMember, request)

    async def note_use(self, prefixes: Sequence[str]) -> None:
        """Note that secrets were used."""
        await self._call(self._stub.NoteKeyUse, pb.NoteKeyUseRequest(prefixes=prefixes))

    async def _call(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request
    ) -> Response:
        return await self._client.call(
            method, request, timeout=CALL_TIMEOUT, fail_point=CHANGE_KEYS
        )
