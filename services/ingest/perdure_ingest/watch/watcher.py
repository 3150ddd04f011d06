"""One query per wake-up for all watched runs; each stream gets the newest state it has not sent.

States in between may be left out: a slow reader falls behind by one state, never by a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import asyncpg
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import Reason, ResourceExhausted
from perdure_runtime.lifecycle import Component
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.metrics import gauge
from perdure_store.reads.rows import RunSnapshot
from perdure_store.reads.runs import Watched, read_changed

STREAMS = gauge("ingest_watched_streams", "WatchRun streams that are open.")

FULL_RETRY_SECONDS = 5.0
"""Wait that a caller is asked for when there are too many streams."""


class Subscription:
    """One stream's wish to hear of a run once its revision exceeds `known`."""

    def __init__(self, org: str, run_id: UUID, known: int, clock: Clock) -> None:
        self.org = org
        self.run_id = run_id
        self.known = known
        self._clock = clock
        self._newest: RunSnapshot | None = None
        self._is_over = False
        self._told = asyncio.Event()

    async def next(self, seconds: float) -> RunSnapshot | None:
        """Wait for the next state; None when `seconds` are over or the process drains."""
        await self._clock.wait(self._told, seconds)
        self._told.clear()
        newest, self._newest = self._newest, None
        return None if self._is_over else newest

    def tell(self, snapshot: RunSnapshot) -> None:
        """Offer a state; one that is known already is passed over."""
        if snapshot.run.revision > self.known:
            self.known = snapshot.run.revision
            self._newest = snapshot
            self._told.set()

    def end(self) -> None:
        """Make the stream end, politely."""
        self._is_over = True
        self._told.set()


class RunWatcher(Component):
    """Looks for changes of the runs that at most `limit` streams watch.

    It looks when it is woken, and every `poll_seconds` in case that no wake-up comes.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        *,
        limit: int,
        poll_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._pool = pool
        self._limit = limit
        self._clock = clock or SystemClock()
        self._subscriptions: set[Subscription] = set()
        self._loop = Loop(
            "ingest.watch", self.run_once, LoopSettings(poll_seconds), clock=self._clock
        )

    def wake(self) -> None:
        """Look now: something may have changed."""
        self._loop.wake()

    def now(self) -> float:
        """The process clock, seconds, for how long a stream lasts."""
        return self._clock.monotonic()

    @contextmanager
    def watch(self, org: str, run_id: UUID, known: int) -> Iterator[Subscription]:
        """Subscribe while the context lasts. Raises ResourceExhausted, RATE_LIMITED, when full."""
        if len(self._subscriptions) >= self._limit:
            raise ResourceExhausted(
                f"{self._limit} runs are being watched here already",
                reason=Reason.RATE_LIMITED,
                metadata={"scope": "watch", "limit": str(self._limit)},
                retry_after=FULL_RETRY_SECONDS,
            )
        subscription = Subscription(org, run_id, known, self._clock)
        self._subscriptions.add(subscription)
        STREAMS.set(len(self._subscriptions))
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            STREAMS.set(len(self._subscriptions))

    async def run_once(self) -> Pass:
        """Ask once for all watched runs and tell whoever knows less."""
        wanted = self._wanted()
        if not wanted:
            return Pass()
        changed = await read_changed(self._pool, wanted)
        by_run = {(found.run.org, found.run.run_id): found for found in changed}
        for subscription in tuple(self._subscriptions):
            found = by_run.get((subscription.org, subscription.run_id))
            if found is not None:
                subscription.tell(found)
        return Pass({"watched": len(wanted), "changed": len(changed)})

    async def on_start(self) -> None:
        """Begin to look."""
        await self._loop.start()

    async def drain(self) -> None:
        """End all streams, so that their clients come back to another process."""
        for subscription in tuple(self._subscriptions):
            subscription.end()

    async def on_stop(self) -> None:
        """End all streams and look no more."""
        await self.drain()
        await self._loop.stop()

    def _wanted(self) -> list[Watched]:
        least: dict[tuple[str, UUID], int] = {}
        for each in self._subscriptions:
            key = (each.org, each.run_id)
            least[key] = min(each.known, least.get(key, each.known))
        return [Watched(org, run_id, known) for (org, run_id), known in least.items()]
