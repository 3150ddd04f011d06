"""The one server interceptor: drain gate, deadline, guard, errors to statuses, metrics.

A failed call is answered by setting code and details, never by `abort`: while a server stops, a
handler that ends with `abort` may lose its answer (grpc/grpc#37239). Errors of the tree are quiet;
any other is a fault of ours, logged once with its stack and hidden from the caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from perdure_runtime.errors import (
    Internal,
    InvalidArgument,
    PerdureError,
    Reason,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from perdure_runtime.logs import log
from perdure_runtime.metrics import counter, histogram
from perdure_runtime.rpc import deadline
from perdure_runtime.rpc.errors import DETAILS_KEY, to_status, wait_of

HANDLED = counter("rpc_server_handled_total", "Calls answered.", ("method", "code"))
SECONDS = histogram("rpc_server_seconds", "Time to answer a unary call.", ("method",))

DRAIN_RETRY_SECONDS = 0.05
"""Wait that a draining server asks for; its clients know other replicas by then."""

FULL_RETRY_SECONDS = 1.0
"""Wait that a server asks for which serves as many calls as it may."""

PUSHBACK = "grpc-retry-pushback-ms"
"""Says the same as RetryInfo to transports that repeat calls by themselves."""

_OTHER = "other"
"""Stands in metrics for methods that are none; callers can name any number of them."""

_PLUMBING = ("/grpc.health.", "/grpc.reflection.")
_logger = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

Read: TypeAlias = Callable[[bytes], Any]
"""Reads a message out of its bytes; raises DecodeError."""

Guard: TypeAlias = Callable[[str, Context], AbstractAsyncContextManager[object]]
"""Entered around each call with its full method name; what entering raises refuses the call."""


def let_all_in(method: str, context: Context) -> AbstractAsyncContextManager[object]:
    """Guard nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class CallRules:
    """What holds for calls by full method name, such as `/perdure.v1.RunService/StartRun`.

    `limits` are the most seconds a method may take, `default_limit` that of all other unary
    methods; None is no limit. `while_draining` are methods still served during a drain. `advise`:
    a failure says how long to wait wherever waiting helps. Of calls beyond `most_at_once` each is
    refused.
    """

    default_limit: float | None = 30.0
    limits: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    while_draining: frozenset[str] = frozenset()
    advise: bool = False
    most_at_once: int | None = None

    def limit_of(self, method: str, *, streams: bool) -> float | None:
        """The most seconds that a call of `method` may take; a stream has no default limit."""
        return self.limits.get(method, None if streams else self.default_limit)


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every method except health and reflection."""

    def __init__(
        self, rules: CallRules, draining: asyncio.Event, guard: Guard = let_all_in
    ) -> None:
        self._rules = rules
        self._draining = draining
        self._guard = guard
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Return once no call is being served; health and reflection do not count."""
        await self._idle.wait()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return the method's handler with the rules around it."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if method.startswith(_PLUMBING):
            return handler
        return self._unknown(method) if handler is None else self._wrapped(handler, method)

    def _unknown(self, method: str) -> Handler:
        """Return what refuses a method that no service has, whatever is sent to it."""

        async def refuse(requests: Any, context: Context) -> AsyncIterator[Any]:
            error = Unimplemented(
                f"there is no method {method}",
                reason=Reason.METHOD_UNKNOWN,
                metadata={"method": method},
            )
            self._set_error(context, method, error)
            _count(context, _OTHER)
            answers: tuple[Any, ...] = ()
            for answer in answers:
                yield answer

        made: Handler = grpc.stream_stream_rpc_method_handler(refuse)
        return made

    def _wrapped(self, handler: Handler, method: str) -> Handler:
        made: Any = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[handler.request_streaming, handler.response_streaming]
        inner: Any = (
            handler.stream_stream
            or handler.stream_unary
            or handler.unary_stream
            or handler.unary_unary
        )
        wrap = self._streaming if handler.response_streaming else self._single
        # One message is read within the rules, so that bytes that are none get an error of ours.
        read = None if handler.request_streaming else handler.request_deserializer
        wrapped: Handler = made(
            wrap(inner, method, read),
            request_deserializer=handler.request_deserializer if read is None else None,
            response_serializer=handler.response_serializer,
        )
        return wrapped

    def _single(
        self, inner: Callable[[Any, Context], Awaitable[Any]], method: str, read: Read | None
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        limit = self._rules.limit_of(method, streams=False)

        async def answer(request: Any, context: Context) -> Any:
            began = perf_counter()
            response = None
            try:
                self._admit(method)
                with self._counted():
                    async with (
                        deadline.within(_least(limit, context)),
                        self._guard(method, context),
                    ):
                        response = await inner(read_message(read, request), context)
            except Exception as error:  # noqa: BLE001 - classified, and logged if unknown
                self._set_error(context, method, error)
            _count(context, method)
            SECONDS.labels(method).observe(perf_counter() - began)
            return response

        return answer

    def _streaming(
        self, inner: Callable[[Any, Context], AsyncIterator[Any]], method: str, read: Read | None
    ) -> Callable[[Any, Context], AsyncIterator[Any]]:
        limit = self._rules.limit_of(method, streams=True)

        async def answer(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                self._admit(method)
                with self._counted():
                    async with (
                        deadline.within(_least(limit, context)),
                        self._guard(method, context),
                    ):
                        async for response in inner(read_message(read, request), context):
                            yield response
            except Exception as error:  # noqa: BLE001 - classified, and logged if unknown
                self._set_error(context, method, error)
            _count(context, method)

        return answer

    def _set_error(self, context: Context, method: str, error: Exception) -> None:
        known = told(method, error)
        status = to_status(known, advise=self._rules.advise)
        context.set_code(grpc.StatusCode[known.code])
        context.set_details(status.message)
        trailer = [*(context.trailing_metadata() or ())]
        trailer.append((DETAILS_KEY, status.SerializeToString()))
        wait = wait_of(known, advise=self._rules.advise)
        if wait is not None:
            trailer.append((PUSHBACK, str(round(wait * 1000))))
        context.set_trailing_metadata(tuple(trailer))

    def _admit(self, method: str) -> None:
        if self._draining.is_set() and method not in self._rules.while_draining:
            raise Unavailable(
                "the server is shutting down",
                reason=Reason.DRAINING,
                retry_after=DRAIN_RETRY_SECONDS,
            )
        most = self._rules.most_at_once
        if most is not None and self._in_flight >= most:
            raise ResourceExhausted(
                f"the server serves {most} calls already",
                reason=Reason.RATE_LIMITED,
                metadata={"scope": "server", "limit": str(most)},
                retry_after=FULL_RETRY_SECONDS,
            )


def _least(limit: float | None, context: Context) -> float | None:
    left: float | None = context.time_remaining()
    bounds = [bound for bound in (limit, left) if bound is not None]
    return min(bounds, default=None)


def read_message(read: Read | None, request: Any) -> Any:
    """Return the message in these bytes; InvalidArgument, MESSAGE_MALFORMED, if they are none.

    Without `read`, it has been read.
    """
    try:
        return request if read is None else read(request)
    except DecodeError as error:
        raise InvalidArgument(
            "the request is no message of this method, or holds text that is not UTF-8",
            reason=Reason.MESSAGE_MALFORMED,
        ) from error


def told(method: str, error: Exception) -> PerdureError:
    """Return what the caller of a method is told of an error; one that is not of the tree is logged
    and hidden.
    """
    if isinstance(error, PerdureError):
        return error
    log(_logger, "rpc.failed", level=logging.ERROR, exc_info=error, method=method)
    return Internal("internal error; the log of the service has it", reason=Reason.INTERNAL)


def _count(context: Context, method: str) -> None:
    code: Any = context.code()
    HANDLED.labels(method, code.name if isinstance(code, grpc.StatusCode) else "OK").inc()
