"""Makes the one gRPC call of a grpc step and says what is known of it afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor
from perdure_contracts.internal.v1.dispatch_pb2 import (
    EFFECT_OUTCOME_ANSWERED,
    EFFECT_OUTCOME_NOT_PERFORMED,
    StepGrant,
)
from perdure_runtime.lifecycle import Component
from perdure_runtime.tracing import current_traceparent

from perdure_worker.effect_calls import EffectCalls
from perdure_worker.egress.egress import Egress
from perdure_worker.executors.account import hidden, method_under
from perdure_worker.executors.begun_calls import Finding, OutsideCall, nothing_told, run_call
from perdure_worker.executors.grpc_calls import ChannelSettings, Metadata, call, connected
from perdure_worker.executors.grpc_messages import MessageInvalid, decoded, encoded
from perdure_worker.executors.grpc_methods import Methods, MethodUnknown, Undescribed
from perdure_worker.executors.grpc_request import GrpcRequest, digest_of, read_call, read_lookup
from perdure_worker.executors.http_request import RequestInvalid
from perdure_worker.executors.port import TryContext
from perdure_worker.executors.verdicts import (
    NOT_FOUND,
    Break,
    CallFailed,
    failed,
    of_break,
)
from perdure_worker.outcome import Completed, Effect, Outcome

BIG_MESSAGE_BYTES = 32 * 1024
"""Messages beyond this are turned in a thread, so that they do not hold the loop (P8)."""

IDEMPOTENCY_NAME = "idempotency-key"

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """`total` is how many seconds a call may take when its node sets no timeout, `connect` how
    many a connection; answers have at most `max_response` bytes.
    """

    connect: float
    total: float
    max_response: int


class GrpcExecutor(Component):
    """Calls methods of which it learns by itself what they take."""

    keeps_deadline: ClassVar[bool] = True

    def __init__(
        self, settings: GrpcSettings, egress: Egress, methods: Methods, effects: EffectCalls
    ) -> None:
        super().__init__()
        self._effects = effects
        self._settings = settings
        self._egress = egress
        self._methods = methods

    async def on_start(self) -> None:
        """Nothing to do: each call has a channel of its own."""

    async def on_stop(self) -> None:
        """Nothing to do: each call has closed its channel."""

    async def run(self, grant: StepGrant, context: TryContext) -> Outcome:
        """Call the method that the step's input names."""
        return hidden(await self._run(grant, context), grant.connection)

    async def _run(self, grant: StepGrant, context: TryContext) -> Outcome:
        try:
            request = method_under(read_call(grant.input), grant.connection)
        except RequestInvalid as error:
            return failed(of_break(Break.UNSENDABLE), str(error))
        request = _with_own_metadata(request, grant)
        digest, call = partial(digest_of, grant.input), partial(self._call, request, grant)
        look_up = partial(self._look_up, grant)
        made = OutsideCall(grant, context, self._settings.total, digest, call, look_up)
        return await run_call(self._effects, made)

    async def _call(self, request: GrpcRequest, grant: StepGrant, deadline: float) -> Outcome:
        try:
            answer = await self._answer(request, grant, deadline, whole=False)
        except CallFailed as error:
            return error.failure
        return Completed(answer, Effect.PERFORMED)

    async def _look_up(self, grant: StepGrant, deadline: float) -> Finding:
        """Ask what became of an earlier call, by the method that the step's input has for it."""
        try:
            request = method_under(read_lookup(grant.input), grant.connection)
            request = _with_metadata(request, grant, {})
            answer = await self._answer(request, grant, deadline, whole=True)
        except RequestInvalid as error:
            return nothing_told(str(error))
        except CallFailed as error:
            if error.failure.code == NOT_FOUND.code:
                return Finding(EFFECT_OUTCOME_NOT_PERFORMED, note=str(error))
            return nothing_told(str(error), error.failure)
        return Finding(EFFECT_OUTCOME_ANSWERED, answer)

    async def _answer(
        self, request: GrpcRequest, grant: StepGrant, deadline: float, *, whole: bool
    ) -> bytes:
        """Return the answer to a request as JSON, as `decoded` does. Raises CallFailed."""
        left = deadline - time.monotonic()
        settings = ChannelSettings(
            min(self._settings.connect, left), self._settings.max_response, self._egress.authorities
        )
        metadata = tuple(request.metadata.items())
        async with connected(request, self._egress.lookup, settings) as channel:
            method, message = await self._prepared(channel, request, grant, deadline)
            answer = await call(channel, request, message, metadata, deadline)
        return await _sized(
            len(answer), lambda: decoded(method, answer, request.shown, whole=whole)
        )

    async def _prepared(
        self, channel: grpc.aio.Channel, request: GrpcRequest, grant: StepGrant, deadline: float
    ) -> tuple[MethodDescriptor, bytes]:
        """Return the method and the request's message. Raises CallFailed."""
        org, metadata = grant.lease.org, tuple(request.metadata.items())
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                try:
                    return await self._message(channel, request, org, metadata)
                except MessageInvalid:
                    # The method may take more than when it was last asked for.
                    self._methods.forget(request, org)
                    return await self._message(channel, request, org, metadata)
        except TimeoutError as error:
            raise _unprepared(Break.TIMEOUT_BEFORE, request, "") from error
        except MessageInvalid as error:
            raise _unprepared(Break.UNSENDABLE, request, str(error)) from error
        except MethodUnknown as error:
            raise _unprepared(Break.METHOD_UNKNOWN, request, str(error)) from error
        except Undescribed as error:
            raise _unprepared(Break.UNDESCRIBED, request, str(error)) from error
        except grpc.aio.AioRpcError as error:
            said = f"{error.code().name} {error.details()}"
            raise _unprepared(Break.UNDESCRIBED, request, said) from error

    async def _message(
        self, channel: grpc.aio.Channel, request: GrpcRequest, org: str, metadata: Metadata
    ) -> tuple[MethodDescriptor, bytes]:
        method = await self._methods.find(channel, request, org, metadata)
        return method, await _sized(len(request.message), lambda: encoded(method, request.message))


async def _sized(size: int, turn: Callable[[], ResultT]) -> ResultT:
    return await asyncio.to_thread(turn) if size > BIG_MESSAGE_BYTES else turn()


def _unprepared(broke: Break, request: GrpcRequest, what: str) -> CallFailed:
    return CallFailed(of_break(broke), f"{request.shown}: {broke}{': ' if what else ''}{what}")


def _with_own_metadata(request: GrpcRequest, grant: StepGrant) -> GrpcRequest:
    """Return the request with what the engine adds where the definition says nothing."""
    key = {IDEMPOTENCY_NAME: grant.effect.key} if grant.HasField("effect") else {}
    return _with_metadata(request, grant, key)


def _with_metadata(request: GrpcRequest, grant: StepGrant, added: dict[str, str]) -> GrpcRequest:
    if traceparent := current_traceparent() or grant.traceparent:
        added["traceparent"] = traceparent
    return replace(request, metadata={**added, **request.metadata})
