"""Effects that are not settled, and what a person decides about one that waits for that."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta

from perdure_contracts.v1 import effect_service_pb2 as pb
from perdure_contracts.v1 import effect_service_pb2_grpc as pb_grpc

from perdure.client_transport import Transport
from perdure.payload import to_payload
from perdure.times import duration


class UnsettledEffects:
    """A client's calls about effects. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = pb_grpc.EffectServiceStub(transport.channel)

    async def list(
        self,
        *,
        run_id: str = "",
        status: str = "",
        kind: str = "",
        older_than: timedelta | None = None,
        page_size: int = 0,
    ) -> AsyncGenerator[pb.EffectEntry, None]:
        """Yield effects that are not settled, the oldest first; what is left out matches all.

        `status` is `in_flight`, `outcome_unknown` or `needs_review`. `page_size` is how many one
        call fetches.
        """
        request = pb.ListEffectsRequest(
            run_id=run_id,
            status=status,
            kind=kind,
            older_than=duration(older_than),
            page_size=page_size,
        )
        while True:
            page = await self._transport.call(self._stub.ListEffects, request)
            for effect in page.effects:
                yield effect
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def get(self, key: str) -> pb.GetEffectResponse:
        """Read one effect with its result and what people decided about it."""
        request = pb.GetEffectRequest(run_id=run_of(key), key=key)
        return await self._transport.call(self._stub.GetEffect, request)

    async def settle(
        self, key: str, result: object = None, *, reason: str = "", asked_by: str = ""
    ) -> bool:
        """Say that it was performed and came to `result`, a value, or bytes that are JSON already.

        Returns whether that decided it; so do `repeat` and `fail`.
        """
        request = _decision(key, reason, asked_by)
        request.settle = to_payload(result)
        return await self._decide(request)

    async def repeat(
        self,
        key: str,
        *,
        although_key_expired: bool = False,
        reason: str = "",
        asked_by: str = "",
    ) -> bool:
        """Say that it was not performed; it is called again, under its key."""
        request = _decision(key, reason, asked_by)
        request.repeat.CopyFrom(pb.RepeatEffect(although_key_expired=although_key_expired))
        return await self._decide(request)

    async def fail(
        self, key: str, *, code: str = "", message: str = "", reason: str = "", asked_by: str = ""
    ) -> bool:
        """Give it up: its step fails with this error."""
        request = _decision(key, reason, asked_by)
        request.fail.CopyFrom(pb.FailEffect(code=code, message=message))
        return await self._decide(request)

    async def _decide(self, request: pb.DecideEffectRequest) -> bool:
        return (await self._transport.call(self._stub.DecideEffect, request)).changed


def run_of(key: str) -> str:
    """Return the run that an effect's key begins with."""
    return key.partition("/")[0]


def _decision(key: str, reason: str, asked_by: str) -> pb.DecideEffectRequest:
    return pb.DecideEffectRequest(run_id=run_of(key), key=key, reason=reason, asked_by=asked_by)
