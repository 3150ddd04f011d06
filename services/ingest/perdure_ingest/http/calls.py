"""The calls of the gRPC services, made in this process and by the same rules.

Each goes through the interceptor of the gRPC server: drain, deadline, gate, errors and metrics are
the same whichever door a call comes by. What is passed through it is not the message but what
reads it, so that a caller is known and allowed before the body is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

import grpc
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure_runtime.errors import Internal, Reason
from perdure_runtime.rpc.errors import DETAILS_KEY, to_status
from perdure_runtime.rpc.interceptor import CallInterceptor, Handler
from perdure_runtime.rpc.server import Register

Read = Callable[[], Awaitable[Message]]
"""Reads the message of a call; raises InvalidArgument."""


class CallContext:
    """What a handler may ask of its call, in place of that of a gRPC server.

    `headers` are those of the request, `seconds` the time that the client gives it, None for any.
    """

    def __init__(self, headers: Mapping[str, str], seconds: float | None, peer: str) -> None:
        self._metadata = tuple((name.lower(), value) for name, value in headers.items())
        self._ends_at = None if seconds is None else _now() + seconds
        self._peer = peer
        self._code: grpc.StatusCode | None = None
        self._trailing: tuple[tuple[str, str | bytes], ...] = ()
        self.http_code = 0
        """The HTTP status of a failure that has one of its own; 0 for that of its code."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the headers, their names in lower case."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline, None without one."""
        return None if self._ends_at is None else max(0.0, self._ends_at - _now())

    def peer(self) -> str:
        """Return where the call came from."""
        return self._peer

    def code(self) -> grpc.StatusCode | None:
        """Return the status that was set."""
        return self._code

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Take the status' text, which is in its details too."""

    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return what goes out behind the answer."""
        return self._trailing

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Set what goes out behind the answer."""
        self._trailing = tuple(metadata)

    def failure(self) -> Status | None:
        """Return what the call failed with, None if it did not."""
        if self._code in (None, grpc.StatusCode.OK):
            return None
        details = dict(self._trailing).get(DETAILS_KEY)
        if isinstance(details, bytes):
            return Status.FromString(details)
        return _unsaid()


class Calls:
    """The methods of some services, by their full names."""

    def __init__(self, services: Sequence[Register], interceptor: CallInterceptor) -> None:
        found = _Collected()
        for register in services:
            register(cast("grpc.aio.Server", found))
        self._methods = {method: _reading(handler) for method, handler in found.methods.items()}
        self._interceptor = interceptor

    async def idle(self) -> None:
        """Return once no call is being served."""
        await self._interceptor.idle()

    async def single(self, method: str, read: Read, context: CallContext) -> Message | Status:
        """Call a method that answers once; return its answer, or what it failed with."""
        handler = await self._handler(method)
        answer: Message | None = await handler.unary_unary(read, context)
        return answer if answer is not None else context.failure() or _unsaid()

    async def stream(
        self, method: str, read: Read, context: CallContext
    ) -> AsyncGenerator[Message, None]:
        """Call a method that answers many times; at the end `context` tells whether it failed."""
        handler = await self._handler(method)
        async with aclosing(handler.unary_stream(read, context)) as answers:
            async for answer in answers:
                yield answer

    async def _handler(self, method: str) -> Any:
        async def known(details: grpc.HandlerCallDetails) -> Handler:
            return self._methods[method]

        details = cast("grpc.HandlerCallDetails", _Details(method))
        return await self._interceptor.intercept_service(known, details)


class _Collected:
    """Takes the place of a server to which services are added."""

    def __init__(self) -> None:
        self.methods: dict[str, Handler] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Pass them over: each service is added by method too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Keep the methods of a service."""
        self.methods |= {f"/{service}/{name}": handler for name, handler in handlers.items()}


@dataclass(frozen=True, slots=True)
class _Details:
    method: str
    invocation_metadata: tuple[()] = ()


def _reading(handler: Handler) -> Handler:
    single, stream = cast("Any", handler.unary_unary), cast("Any", handler.unary_stream)

    async def answer(read: Read, context: Any) -> Any:
        return await single(await read(), context)

    async def answers(read: Read, context: Any) -> AsyncIterator[Any]:
        async for response in stream(await read(), context):
            yield response

    made: Handler
    if handler.response_streaming:
        made = grpc.unary_stream_rpc_method_handler(cast("Any", answers))
    else:
        made = grpc.unary_unary_rpc_method_handler(cast("Any", answer))
    return made


def _unsaid() -> Status:
    return to_status(Internal("the call failed without saying why", reason=Reason.INTERNAL))


def _now() -> float:
    return asyncio.get_running_loop().time()
