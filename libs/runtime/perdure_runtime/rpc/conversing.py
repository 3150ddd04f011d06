"""Serves calls that come in one stream, each as a call of its own would be served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from perdure_contracts.internal.v1.converse_pb2 import ConverseRequest, ConverseResponse

from perdure_runtime.errors import Reason, Unimplemented
from perdure_runtime.metrics import Counter, Histogram
from perdure_runtime.rpc import deadline
from perdure_runtime.rpc.conversation import MAX_BYTES, METHOD, too_large
from perdure_runtime.rpc.errors import to_status
from perdure_runtime.rpc.interceptor import HANDLED, SECONDS, Context, Read, read_message, told

MAX_AT_ONCE = 64
"""Calls of one stream that are served at once; of more, the next is read when one has ended."""

MAX_SECONDS = 30.0
"""Longest time of a call that asks for no less."""

Answers = asyncio.Queue[ConverseResponse | None]


@dataclass(frozen=True, slots=True)
class _Method:
    path: str
    read: Read
    serve: Callable[[Any, Context], Awaitable[Message]]


class Conversing:
    """Serves the unary methods of a service, which a servicer has, until `draining`."""

    def __init__(
        self, servicer: object, service: ServiceDescriptor, draining: asyncio.Event
    ) -> None:
        self._methods = _methods(servicer, service)
        self._draining = draining
        self._reading: set[asyncio.Task[None]] = set()

    async def serve(
        self, requests: AsyncIterator[ConverseRequest], context: Context
    ) -> AsyncIterator[ConverseResponse]:
        """Answer the calls of a stream, each when it is done."""
        answers: Answers = asyncio.Queue()
        serving = set[asyncio.Task[None]]()
        reading = asyncio.create_task(self._read(requests, context, answers, serving))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)
        stopping = asyncio.create_task(self._stop_when_draining(reading))
        try:
            while (answer := await answers.get()) is not None:
                yield answer
        finally:
            stopping.cancel()
            reading.cancel()
            for task in tuple(serving):
                task.cancel()  # the stream broke: nobody is left to answer

    async def _stop_when_draining(self, reading: asyncio.Task[None]) -> None:
        await self._draining.wait()
        reading.cancel()

    async def _read(
        self,
        requests: AsyncIterator[ConverseRequest],
        context: Context,
        answers: Answers,
        serving: set[asyncio.Task[None]],
    ) -> None:
        try:
            async for request in requests:
                if len(serving) >= MAX_AT_ONCE:
                    await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(self._answer(request, context, answers))
                serving.add(task)
                task.add_done_callback(serving.discard)
        except asyncio.CancelledError:
            pass  # what was taken is answered; the sender sends the rest to somebody else
        while serving:
            await asyncio.wait(tuple(serving))
        answers.put_nowait(None)

    async def _answer(self, request: ConverseRequest, context: Context, answers: Answers) -> None:
        began, code = perf_counter(), "OK"
        method = self._methods.get(request.method)
        path = method.path if method is not None else "other"
        try:
            message = await self._served(request, method, context)
            answer = ConverseResponse(id=request.id, message=message)
        except Exception as error:  # noqa: BLE001 - classified, and logged if unknown
            known = told(path, error)
            code = str(known.code)
            answer = ConverseResponse(id=request.id, error=to_status(known))
        answers.put_nowait(answer)
        _handled(path, code).inc()
        _seconds(path).observe(perf_counter() - began)

    async def _served(
        self, request: ConverseRequest, method: _Method | None, context: Context
    ) -> bytes:
        if method is None:
            raise Unimplemented(
                f"there is no method {request.method}",
                reason=Reason.METHOD_UNKNOWN,
                metadata={"method": request.method},
            )
        seconds = min(request.timeout_ms / 1000 or MAX_SECONDS, MAX_SECONDS)
        async with deadline.within(seconds):
            response = await method.serve(read_message(method.read, request.message), context)
        message = response.SerializeToString()
        if len(message) > MAX_BYTES:
            raise too_large(request.method, len(message))
        return message


@cache
def _handled(path: str, code: str) -> Counter:
    return HANDLED.labels(path, code)


@cache
def _seconds(path: str) -> Histogram:
    return SECONDS.labels(path)


def _methods(servicer: object, service: ServiceDescriptor) -> Mapping[str, _Method]:
    return {
        method.name: _Method(
            f"/{service.full_name}/{method.name}",
            GetMessageClass(method.input_type).FromString,
            getattr(servicer, method.name),
        )
        for method in service.methods
        if method.name != METHOD and not method.server_streaming and not method.client_streaming
    }
