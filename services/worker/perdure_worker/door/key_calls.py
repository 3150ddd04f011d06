"""What the door asks the coordinator about the keys of handlers."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_contracts.internal.v1.key_service_pb2 import (
    CheckKeyRequest,
    CheckKeyResponse,
    KeySecret,
    NoteKeyUseRequest,
)
from perdure_contracts.internal.v1.key_service_pb2_grpc import KeyServiceStub
from perdure_runtime.api_keys import PresentedKey
from perdure_runtime.fail_points import declare
from perdure_runtime.rpc.client import RpcClient

ASK_ABOUT_KEYS = declare("worker.ask_about_keys")

CALL_SECONDS = 5.0
"""Longest time of one call with its repeats."""


class KeyCalls:
    """The part of the coordinator's KeyService that a worker may call."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._stub = KeyServiceStub(client.channel)

    async def check(self, presented: PresentedKey) -> CheckKeyResponse:
        """Ask whom a key stands for. Raises Unauthenticated, else PerdureError."""
        secret = KeySecret(prefix=presented.prefix, digest=presented.digest)
        return await self._client.call(
            self._stub.CheckKey,
            CheckKeyRequest(secret=secret),
            timeout=CALL_SECONDS,
            fail_point=ASK_ABOUT_KEYS,
        )

    async def note_use(self, prefixes: Sequence[str]) -> None:
        """Note that secrets were used. Raises PerdureError."""
        await self._client.call(
            self._stub.NoteKeyUse,
            NoteKeyUseRequest(prefixes=prefixes),
            timeout=CALL_SECONDS,
            fail_point=ASK_ABOUT_KEYS,
        )
