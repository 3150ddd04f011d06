"""Calls to one service over a stream that stays open, for callers that call it all the time.

A call of gRPC costs each end several times what a message of an open stream does. Only the
transport differs: each call has its own answer, its own time limit and its own errors, and is sent
again by whoever made it when the stream ends before the answer.

A stream leads to one replica. It is left for a new one after `LINE_SECONDS`, so that replicas share
the load, and when a call had no answer in time, since the replica may hang.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import Any, TypeAlias

import grpc
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure_contracts.internal.v1.converse_pb2 import ConverseRequest, ConverseResponse

from perdure_runtime.errors import (
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    PerdureError,
    Reason,
    Unavailable,
    Unimplemented,
)
from perdure_runtime.rpc.errors import from_call_error, from_status
from perdure_runtime.rpc.options import MAX_MESSAGE_BYTES

METHOD = "Converse"

LINE_SECONDS = 30.0
"""How long a stream is given new calls, give or take a tenth. Shorter than the time that a closing
connection leaves to its calls.
"""

REFUSED_SECONDS = 60.0
"""How long calls are made one by one after a server, an older one, did not know the method."""

MAX_BYTES = MAX_MESSAGE_BYTES - 1024
"""Most bytes of a message within a message."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}

Stream: TypeAlias = "grpc.aio.StreamStreamCall[ConverseRequest, ConverseResponse]"


class _Line:
    """One stream."""

    def __init__(self, stream: Stream, ends_at: float) -> None:
        self.ends_at = ends_at
        self.is_open = True
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._is_read = asyncio.Event()
        stream.add_done_callback(lambda _: self._is_read.set())
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[ConverseResponse]] = {}
        self._outgoing: deque[ConverseRequest] = deque()
        self._writing: asyncio.Task[None] | None = None
        # A context of its own: the stream outlives the call that needed it first.
        self._reading = asyncio.create_task(self._read(), context=Context())

    async def ask(self, method: str, message: bytes, timeout: float) -> ConverseResponse:
        """Return the answer to a call. Raises what ended the stream before it came, TimeoutError
        after `timeout` seconds.
        """
        number = next(self._ids)
        answer: asyncio.Future[ConverseResponse] = self._loop.create_future()
        alarm = self._loop.call_later(timeout, _give_up, answer)
        self._waiting[number] = answer
        self._outgoing.append(
            ConverseRequest(
                id=number, method=method, message=message, timeout_ms=max(1, round(timeout * 1000))
            )
        )
        if self._writing is None:
            self._writing = self._loop.create_task(self._write(), context=Context())
        self._is_read.set()
        try:
            return await answer
        finally:
            alarm.cancel()
            self._waiting.pop(number, None)
            self._hang_up_if_done()

    def retire(self) -> None:
        """Take no more calls; the stream ends when those are answered that it has."""
        self.is_open = False
        self._is_read.set()
        self._hang_up_if_done()

    async def close(self) -> None:
        """End the stream; calls without an answer fail."""
        self.is_open = False
        self._stream.cancel()
        await asyncio.wait((self._reading,))

    def _hang_up_if_done(self) -> None:
        if not self.is_open and not self._waiting and self._writing is None:
            self._writing = asyncio.create_task(self._hang_up(), context=Context())

    async def _hang_up(self) -> None:
        await self._stream.done_writing()

    async def _write(self) -> None:
        try:
            while self._outgoing:
                await self._stream.write(self._outgoing.popleft())
        except (grpc.RpcError, asyncio.InvalidStateError):
            self.is_open = False  # the reader is told why
        finally:
            self._writing = None
            self._hang_up_if_done()

    async def _read(self) -> None:
        ended: PerdureError = Unavailable("the stream ended", reason=Reason.PEER_UNAVAILABLE)
        try:
            while isinstance(answer := await self._stream.read(), ConverseResponse):
                waiting = self._waiting.pop(answer.id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
                if self.is_open and not self._waiting:
                    # To ask for a message takes time, which who was answered would wait for.
                    self._is_read.clear()
                    await self._is_read.wait()
        except grpc.aio.AioRpcError as error:
            ended = _ended(from_call_error(error))
        except asyncio.CancelledError:
            pass  # the stream was closed
        self.is_open = False
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ended)


class Conversation:
    """The stream to one service that is open now; `open_stream` begins one."""

    def __init__(self, open_stream: Callable[[], Stream]) -> None:
        self._open_stream = open_stream
        self._line: _Line | None = None
        self._refused_until = 0.0

    async def ask(self, method: str, message: bytes, timeout: float) -> bytes | None:
        """Send a call's message; return its answer's, None if the server knows no streams.

        Raises what the server raised; Unavailable when the stream ended before the answer came,
        DeadlineExceeded after `timeout` seconds.
        """
        if len(message) > MAX_BYTES:
            raise too_large(method, len(message))
        now = asyncio.get_running_loop().time()
        if now < self._refused_until:
            return None
        line = self._current(now)
        try:
            answer = await line.ask(method, message, timeout)
        except TimeoutError as error:
            line.retire()
            raise DeadlineExceeded(
                f"no answer within {timeout:.3g} seconds", reason=Reason.DEADLINE_EXCEEDED
            ) from error
        except Unimplemented:
            self._refused_until = asyncio.get_running_loop().time() + REFUSED_SECONDS
            return None
        if answer.HasField("error"):
            raise _error(answer.error)
        return answer.message

    async def close(self) -> None:
        """End the stream; it is not begun again."""
        if self._line is not None:
            await self._line.close()

    def _current(self, now: float) -> _Line:
        line = self._line
        if line is None or not line.is_open or now >= line.ends_at:
            if line is not None:
                line.retire()
            lifetime = LINE_SECONDS * random.uniform(0.9, 1.1)
            line = self._line = _Line(self._open_stream(), now + lifetime)
        return line


class ConversingChannel:
    """A channel whose calls to one service go over a stream; it makes stubs' methods.

    `service` is the full name, such as `perdure.internal.v1.CoordinatorService`.
    """

    def __init__(self, channel: grpc.aio.Channel, service: str) -> None:
        self._channel = channel
        self._service = service
        begin: Any = channel.stream_stream(
            f"/{service}/{METHOD}",
            request_serializer=ConverseRequest.SerializeToString,
            response_deserializer=ConverseResponse.FromString,
        )
        self._conversation = Conversation(begin)

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **options: Any,
    ) -> Any:
        """Make a method."""
        alone = self._channel.unary_unary(
            method, request_serializer, response_deserializer, **options
        )
        service, _, name = method.removeprefix("/").rpartition("/")
        if service != self._service:
            return alone
        return _Method(self._conversation, name, request_serializer, response_deserializer, alone)

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Make a method; it has a stream of its own."""
        return self._channel.stream_stream(method, *args, **kwargs)

    async def close(self) -> None:
        """End the stream and close the channel."""
        await self._conversation.close()
        await self._channel.close()


class _Method:
    def __init__(
        self,
        conversation: Conversation,
        name: str,
        write: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
        alone: Callable[..., Any],
    ) -> None:
        self._conversation = conversation
        self._name = name
        self._write = write
        self._read = read
        self._alone = alone

    async def __call__(self, request: Any, *, timeout: float, metadata: Any = ()) -> Any:
        answer = await self._conversation.ask(self._name, self._write(request), timeout)
        if answer is None:
            return await self._alone(request, timeout=timeout, metadata=metadata)
        return self._read(answer)


def too_large(method: str, size: int) -> InvalidArgument:
    """Return what is said of a message that has no room in one of the stream."""
    return InvalidArgument(
        f"{method}: a message of {size} bytes is larger than {MAX_BYTES}",
        reason=Reason.PAYLOAD_TOO_LARGE,
    )


def _ended(why: PerdureError) -> PerdureError:
    """Return what calls without an answer are told: a broken stream says nothing about them."""
    if isinstance(why, Internal):
        return Unavailable(f"the stream broke: {why.message}", reason=Reason.PEER_UNAVAILABLE)
    return why


def _give_up(answer: asyncio.Future[ConverseResponse]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _error(status: Status) -> PerdureError:
    return from_status(status, _CODES.get(status.code, grpc.StatusCode.UNKNOWN))
