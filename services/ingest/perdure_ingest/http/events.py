"""Streams as server-sent events: ids to come back by, heartbeats, and an end that is told.

The call runs in one task of its own, since deadlines and callers belong to the task that they were
set in; its answers are handed over one at a time, so a slow client slows the call and fills
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

from google.protobuf.message import Message

LAST_ID_HEADER = "Last-Event-ID"
CONTENT_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 1000\n\n"
END = b"event: end\ndata: {}\n\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream goes on: the path to an answer's number, and the field that asks beyond it."""

    answer: tuple[str, ...]
    request: str


PLACES: Mapping[str, Place] = MappingProxyType(
    {"/perdure.v1.RunService/WatchRun": Place(("run", "revision"), "after_revision")}
)
"""Of each call that streams."""


def id_of(message: Message, place: Place) -> str:
    """Return the id of an event."""
    value: object = message
    for name in place.answer:
        value = getattr(value, name)
    return str(value)


def event(data: bytes, *, name: str = "", id_: str = "") -> bytes:
    """Return one event; `data` is JSON, whose line breaks, which mean nothing, become `\\n`."""
    head = (f"event: {name}\n" if name else "") + (f"id: {id_}\n" if id_ else "")
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines())
    return head.encode() + lines + b"\n"


class Feed:
    """The answers of a call that runs in a task of its own."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[Message | None] = asyncio.Queue(1)
        self._next: asyncio.Task[Message | None] | None = None

    async def run(self, answers: AsyncGenerator[Message, None]) -> None:
        """Hand over all answers, then None."""
        async with aclosing(answers):
            async for answer in answers:
                await self._answers.put(answer)
        await self._answers.put(None)

    async def wait(self, seconds: float) -> bool:
        """Wait for the next answer or the end; False when `seconds` are over before."""
        if self._next is None:
            self._next = asyncio.create_task(self._answers.get())
        await asyncio.wait([self._next], timeout=seconds)
        return self._next.done()

    @property
    def is_over(self) -> bool:
        """Whether the end is what was waited for."""
        return self._next is not None and self._next.done() and self._next.result() is None

    def take(self) -> Message | None:
        """Return what was waited for; None at the end."""
        if self._next is None:
            raise RuntimeError("nothing was waited for")
        taken, self._next = self._next.result(), None
        return taken

    def stop(self) -> None:
        """Wait for nothing more."""
        if self._next is not None:
            self._next.cancel()


@asynccontextmanager
async def feed_of(answers: AsyncGenerator[Message, None]) -> AsyncIterator[Feed]:
    """Run a call while the context lasts."""
    feed = Feed()
    task = asyncio.create_task(feed.run(answers))
    try:
        yield feed
    finally:
        feed.stop()
        task.cancel()
        await asyncio.wait([task])
