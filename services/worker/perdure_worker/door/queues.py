"""One queue that polls wait for: what reads it, and who gets what is read."""

from __future__ import annotations

import asyncio
from functools import partial

from perdure_runtime.clock import Clock
from perdure_streams.consumer import Consumer, Entry
from perdure_streams.names import Queue
from redis.asyncio import Redis

from perdure_worker.begun import Begun
from perdure_worker.door.waiting import Line, Promise
from perdure_worker.hand_out import HandOut
from perdure_worker.intake import Intake
from perdure_worker.reader import Reader
from perdure_worker.releases import Releases

STOP_SECONDS = 2.0
"""How long leases that were asked for may take to be answered when the reading ends."""


class ServedQueue:
    """Reads a queue only for polls that wait for it; nothing is read ahead of them."""

    def __init__(
        self,
        queue: Queue,
        redis: Redis,
        name: str,
        intake: Intake,
        releases: Releases,
        reclaim_idle: float,
        clock: Clock,
    ) -> None:
        self.queue = queue
        self.line = Line()
        self._intake = intake
        self._releases = releases
        self._shards = 0
        self._consumer = Consumer(redis, (), name, clock=clock)
        self._begun = Begun(self.line)
        self._reader = Reader(
            self._consumer, self.line, self._begun, self._is_served, self._take, reclaim_idle, clock
        )
        self.line.on_change(self._reader.wake)

    def serve(self, shards: int) -> None:
        """Read so many shards."""
        if shards != self._shards:
            self._shards = shards
            self._consumer.serve(self.queue.streams(shards))
            self._reader.wake()

    async def start(self) -> None:
        """Read from now on."""
        await self._reader.start()

    async def stop(self) -> None:
        """Read no more, and finish what was read."""
        await self._reader.drain()
        await self._reader.stop()
        if self._begun.tasks:
            await asyncio.wait(self._begun.tasks, timeout=STOP_SECONDS)

    def _is_served(self) -> bool:
        return self._shards > 0

    async def _take(self, entry: Entry) -> None:
        promise = self.line.claim()
        if promise is None:
            # It was read for a poll that has gone meanwhile; the next one finds it first.
            await self._consumer.give_back([entry])
            self._reader.reclaim_soon()
            return
        try:
            await self._intake.take(entry, partial(self._hand_out, promise), promise.poll.worker)
        finally:
            promise.drop()

    async def _hand_out(self, promise: Promise, hand_out: HandOut) -> None:
        # Whoever it was for may be gone: then it is the next one's, or goes back to the queue.
        if not promise.keep(hand_out) and not self.line.give(hand_out):
            await self._releases.release(hand_out.lease)
