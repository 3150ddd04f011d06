"""Answers on their way out: whole ones and streams, and clients that do not take them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import web
from google.protobuf.message import Message
from perdure_runtime.errors import FieldViolation, InvalidArgument

from perdure_ingest.http import events
from perdure_ingest.http.calls import CallContext, Calls, Read
from perdure_ingest.http.statuses import HEADERS, Answer, failure, status_json
from perdure_ingest.http.writing import to_json

FIRST_SECONDS = 1.0
"""How long a stream waits for its first event before it begins without one."""

NO_CONTENT = 204
"""Tells the readers of a stream that nothing will come, so that they do not ask again."""

MAX_ID_DIGITS = 18


async def send(
    request: web.BaseRequest, answer: Answer, seconds: float, *, is_last: bool
) -> web.StreamResponse:
    """Send an answer, and cut the connection of a client that does not take it in time.

    With `is_last` the connection ends with it.
    """
    response = answer.response()
    if is_last:
        response.force_close()
    try:
        async with asyncio.timeout(seconds):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        _cut(request)
    return response


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: between two signs of life of a stream, and for a client to take what is sent."""

    heartbeat: float
    send: float


class EventStream:
    """The answer to one call that streams."""

    def __init__(
        self,
        request: web.BaseRequest,
        place: events.Place,
        patience: Patience,
        draining: asyncio.Event,
    ) -> None:
        self._request = request
        self._place = place
        self._patience = patience
        self._draining = draining

    async def send(
        self, calls: Calls, method: str, read: Read, context: CallContext
    ) -> web.StreamResponse:
        """Make the call and send its answers as events.

        A call that fails before its first answer is answered as any other. One that has nothing to
        say is answered with no content, after which readers do not come back.
        """

        async def placed() -> Message:
            message = await read()
            self._go_on(message)
            return message

        async with events.feed_of(calls.stream(method, placed, context)) as feed:
            if await feed.wait(FIRST_SECONDS) and feed.is_over:
                status, is_last = context.failure(), self._draining.is_set()
                if status is not None or not is_last:
                    answer = failure(status, context.http_code) if status else Answer(NO_CONTENT)
                    return await send(self._request, answer, self._patience.send, is_last=is_last)
            return await self._stream(feed, context)

    async def _stream(self, feed: events.Feed, context: CallContext) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": events.CONTENT_TYPE})
        try:
            await self._begin(response)
            while not await self._next(feed, response):
                pass
            status = context.failure()
            ending = (
                events.END if status is None else events.event(status_json(status), name="error")
            )
            await self._write(response, ending)
            async with asyncio.timeout(self._patience.send):
                await response.write_eof()
        except TimeoutError:
            _cut(self._request)
        return response

    async def _begin(self, response: web.StreamResponse) -> None:
        async with asyncio.timeout(self._patience.send):
            await response.prepare(self._request)
        await self._write(response, events.RETRY)

    async def _next(self, feed: events.Feed, response: web.StreamResponse) -> bool:
        """Send the next event or a sign of life; True at the end."""
        if not await feed.wait(self._patience.heartbeat):
            await self._write(response, events.HEARTBEAT)
            return False
        message = feed.take()
        if message is None:
            return True
        data = events.event(to_json(message), id_=events.id_of(message, self._place))
        await self._write(response, data)
        return False

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(self._patience.send):
            await response.write(data)

    def _go_on(self, message: Message) -> None:
        """Have the call go on after the last event that the client saw."""
        last = self._request.headers.get(events.LAST_ID_HEADER)
        if last is None:
            return
        if not (last.isascii() and last.isdigit() and len(last) <= MAX_ID_DIGITS):
            problem = "is no id of an event of this stream"
            raise InvalidArgument(
                f"{events.LAST_ID_HEADER} {problem}",
                violations=[FieldViolation(events.LAST_ID_HEADER, problem)],
            )
        setattr(message, self._place.request, int(last))


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
