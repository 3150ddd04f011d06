"""Reads entries from the streams, only as many as there are free slots, and starts work on each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.logs import log
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.tracing import quiet
from perdure_streams.consumer import Consumer, Entry

from perdure_worker.slots import Places

BLOCK_MS = 250
"""Longest wait for an entry; also how long a drain may wait for the read in flight."""

RECLAIM_SECONDS = 3.0
"""Time between two looks for entries of workers that died."""

IDLE_SECONDS = 0.5
"""Wait before looking again for a free slot or for a lane; one that comes cuts it short."""

_logger = logging.getLogger(__name__)

_BACKOFF = Backoff(base=0.1, factor=2.0, cap=2.0)


class Reader(Loop):
    """Nothing is read ahead: what has no slot stays in the stream for others to take."""

    def __init__(
        self,
        consumer: Consumer,
        slots: Places,
        is_serving: Callable[[], bool],
        take: Callable[[Entry], Awaitable[None]],
        reclaim_idle: float,
        clock: Clock,
    ) -> None:
        settings = LoopSettings(interval=IDLE_SECONDS, backoff=_BACKOFF)
        super().__init__("reader", self.read_once, settings, clock=clock)
        self._consumer = consumer
        self._slots = slots
        self._is_serving = is_serving
        self._take = take
        self._reclaim_idle_ms = round(reclaim_idle * 1000)
        self._time = clock
        self._reclaim_at = clock.monotonic()
        self._draining = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """The work on entries that was begun and has not ended."""
        return frozenset(self._tasks)

    def reclaim_soon(self) -> None:
        """Look at once for entries that were given back, as soon as there is room."""
        self._reclaim_at = self._time.monotonic()
        self.wake()

    async def drain(self) -> None:
        """Read no more; what the read in flight still brings is given back."""
        self._draining = True
        await super().drain()

    async def read_once(self) -> Pass:
        """Read or reclaim what there is room for. Raises Unavailable, STREAMS_UNAVAILABLE."""
        if self._slots.free == 0 or not self._is_serving():
            return Pass()
        with quiet():
            entries = await self._next_entries(self._slots.free)
        if self._draining:
            await self._consumer.give_back(entries)
            return Pass({"given_back": len(entries)})
        self._begin(entries)
        return Pass({"entries": len(entries)}, more=True)

    async def _next_entries(self, room: int) -> list[Entry]:
        now = self._time.monotonic()
        if now >= self._reclaim_at:
            entries = await self._consumer.reclaim(self._reclaim_idle_ms, room)
            if len(entries) < room:
                self._reclaim_at = now + RECLAIM_SECONDS
            if entries:
                return entries
        return await self._consumer.read(room, BLOCK_MS)

    def _begin(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._slots.take()
            task = asyncio.create_task(self._work(entry), name=f"entry {entry.entry_id}")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            log(_logger, "entry.failed", level=logging.ERROR, exc_info=fault)

    async def _work(self, entry: Entry) -> None:
        try:
            await self._take(entry)
        finally:
            self._slots.give_back()
