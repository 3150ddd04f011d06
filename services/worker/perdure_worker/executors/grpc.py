"""Makes the one gRPC call of a grpc step and says what is known of it afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass
from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant
from perdure_runtime.lifecycle import Component
from perdure_runtime.tracing import current_traceparent

from perdure_worker.effect_calls import EffectCalls
from perdure_worker.egress.egress import Egress
from perdure_worker.executors.account import hidden, method_under
from perdure_worker.executors.begun_calls import BegunCall, LookedUp, run_begun
from perdure_worker.executors.grpc_calls import ChannelSettings, Metadata, call, connected
from perdure_worker.executors.grpc_methods import Methods, MethodUnknown, Undescribed
from perdure_worker.executors.grpc_request import GrpcRequest, read_call
from perdure_worker.executors.http_request import RequestInvalid
from perdure_worker.executors.port import TryContext
from perdure_worker.executors.verdicts import (
    Break,
    CallFailed,
    failed,
    of_break,
    of_unusable,
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


class _MessageInvalid(ValueError):
    """The request is no message that the method takes."""


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
        deadline = context.deadline
        if deadline is None:
            deadline = time.monotonic() + self._settings.total
        until = deadline

        async def call_once() -> Outcome:
            return await self._call_once(grant, until)

        if not grant.effect.begin_first:
            return await call_once()
        seconds = max(0.0, deadline - time.monotonic())
        digest = hashlib.sha256(grant.input).digest()
        begun = BegunCall(grant, seconds, digest, call_once, _look_up, context.open_calls)
        return await run_begun(self._effects, begun)

    async def _call_once(self, grant: StepGrant, deadline: float) -> Outcome:
        try:
            request = method_under(read_call(grant.input), grant.connection)
            request = _with_own_metadata(request, grant)
            return await self._call(request, grant, deadline)
        except RequestInvalid as error:
            return failed(of_break(Break.UNSENDABLE), str(error))
        except CallFailed as error:
            return error.failure

    async def _call(self, request: GrpcRequest, grant: StepGrant, deadline: float) -> Outcome:
        left = deadline - time.monotonic()
        settings = ChannelSettings(
            min(self._settings.connect, left), self._settings.max_response, self._egress.authorities
        )
        metadata = tuple(request.metadata.items())
        async with connected(request, self._egress.lookup, settings) as channel:
            method, message = await self._prepared(channel, request, grant, deadline)
            answer = await call(channel, request, message, metadata, deadline)
        return await _sized(len(answer), lambda: _to_outcome(request, method, answer))

    async def _prepared(
        self, channel: grpc.aio.Channel, request: GrpcRequest, grant: StepGrant, deadline: float
    ) -> tuple[MethodDescriptor, bytes]:
        """Return the method and the request's message. Raises CallFailed."""
        org, metadata = grant.lease.org, tuple(request.metadata.items())
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                try:
                    return await self._message(channel, request, org, metadata)
                except _MessageInvalid:
                    # The method may take more than when it was last asked for.
                    self._methods.forget(request, org)
                    return await self._message(channel, request, org, metadata)
        except TimeoutError as error:
            raise _unprepared(Break.TIMEOUT_BEFORE, request, "") from error
        except _MessageInvalid as error:
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
        return method, await _sized(len(request.message), lambda: _encoded(method, request.message))


async def _sized(size: int, turn: Callable[[], ResultT]) -> ResultT:
    return await asyncio.to_thread(turn) if size > BIG_MESSAGE_BYTES else turn()


def _encoded(method: MethodDescriptor, text: str) -> bytes:
    message = GetMessageClass(method.input_type)()
    try:
        json_format.Parse(text, message, descriptor_pool=method.input_type.file.pool)
        return message.SerializeToString()
    except (json_format.ParseError, EncodeError, ValueError, RecursionError) as error:
        raise _MessageInvalid(
            f"the request is no {method.input_type.full_name}: {error}"
        ) from error


def _to_outcome(request: GrpcRequest, method: MethodDescriptor, answer: bytes) -> Outcome:
    try:
        message = GetMessageClass(method.output_type).FromString(answer)
        pool = method.output_type.file.pool
        value = json_format.MessageToDict(message, descriptor_pool=pool)
    except (DecodeError, json_format.SerializeToJsonError, TypeError, ValueError) as error:
        what = f"{request.shown} was answered with no {method.output_type.full_name}: {error}"
        return failed(of_unusable(200, "RESPONSE_UNREADABLE"), what)
    return Completed(json.dumps(value, separators=(",", ":")).encode(), Effect.PERFORMED)


def _unprepared(broke: Break, request: GrpcRequest, what: str) -> CallFailed:
    return CallFailed(of_break(broke), f"{request.shown}: {broke}{': ' if what else ''}{what}")


async def _look_up() -> LookedUp:
    return LookedUp(None, "a call of a gRPC method cannot be looked up")


def _with_own_metadata(request: GrpcRequest, grant: StepGrant) -> GrpcRequest:
    """Return the request with what the engine adds where the definition says nothing."""
    added: dict[str, str] = {}
    if grant.HasField("effect"):
        added[IDEMPOTENCY_NAME] = grant.effect.key
    if traceparent := current_traceparent() or grant.traceparent:
        added["traceparent"] = traceparent
    return replace(request, metadata={**added, **request.metadata})
