"""Wake-ups after commits: one coalesced NOTIFY on a connection of its own (design P7, F073, F074).

A wake-up is a hint that nobody waits for: who misses one looks again within 50 ms. One that could
not be sent is kept and sent with the next try. That runs changed is news for people, who do not
mind if it gathers for a moment, and for longer where they only went on; what lets work begin is
told at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence

from perdure_machine.changes import Changes
from perdure_runtime import fail_points
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component, finish
from perdure_runtime.logs import log_failure
from perdure_runtime.tracing import quiet
from perdure_store.held import HeldConnection
from perdure_store.sql import sql
from perdure_store.transaction import write

NOTIFY = fail_points.declare("coordinator.notify")

OUTBOX = "perdure_outbox"
TIMERS = "perdure_timers"
RUNS = "perdure_runs"

RETRY_SECONDS = 0.5

WATCHERS_SECONDS = 0.01
"""How long news for watchers of runs alone may gather."""

PROGRESS_SECONDS = 0.05
"""How long news may gather that runs went on by a step."""

_logger = logging.getLogger(__name__)


class WakeUps(Component):
    """Tells relay, timer and watchers that there is something new, at most once per round trip."""

    def __init__(
        self, direct_url: str, clock: Clock | None = None, *, enabled: bool = True
    ) -> None:
        super().__init__()
        self._enabled = enabled
        self._clock = clock or SystemClock()
        self._held = HeldConnection(
            direct_url, self._clock, application_name="perdure-coordinator-wakeups"
        )
        self._channels: set[str] = set()
        self._due = math.inf
        self._sooner = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def committed(self, changes: Sequence[Changes], left: Sequence[Changes] | None = None) -> None:
        """Note what a transaction wrote; called after its commit (R2).

        `left` are those whose queued steps are the relay's to send, all if nothing is said.
        """
        self._tell(RUNS, WATCHERS_SECONDS)
        if any(one.enqueue or one.freed for one in (changes if left is None else left)):
            self._tell(OUTBOX, 0.0)
        if any(one.set_timers for one in changes):
            self._tell(TIMERS, 0.0)

    def plainly_written(self, *, ended: bool) -> None:
        """Note that runs went on without anything to deliver, or ended; after that was written."""
        self._tell(RUNS, WATCHERS_SECONDS if ended else PROGRESS_SECONDS)

    def rows_ready(self) -> None:
        """Note that outbox rows were let go by what is no event of a run; after its commit."""
        self._tell(OUTBOX, 0.0)

    async def on_start(self) -> None:
        """Begin to send, unless nothing is to be sent."""
        if not self._enabled:
            return
        self._task = asyncio.create_task(self._run(), name="wake-ups")

    async def on_stop(self) -> None:
        """Send nothing more."""
        if self._task is not None:
            self._task.cancel()
            await finish(self._task)
        await self._held.close()

    def _tell(self, channel: str, within: float) -> None:
        self._channels.add(channel)
        due = self._clock.monotonic() + within
        if due < self._due:
            self._due = due
            self._sooner.set()

    async def _gather(self) -> set[str]:
        """Wait until news are due, and return the channels that they are for."""
        while (left := self._due - self._clock.monotonic()) > 0:
            await self._clock.wait(self._sooner, None if left == math.inf else left)
            self._sooner.clear()
        self._due = math.inf
        channels, self._channels = self._channels, set()
        return channels

    async def _run(self) -> None:
        failing = False
        while True:
            channels = await self._gather()
            try:
                with quiet():
                    await self._notify(sorted(channels))
                failing = False
            except PerdureError as error:
                if not failing:
                    log_failure(_logger, "wakeup.failed", error)
                failing = True
                for channel in channels:
                    self._tell(channel, 0.0)
                await self._clock.sleep(RETRY_SECONDS)

    async def _notify(self, channels: list[str]) -> None:
        connection = await self._held.get()
        await write(connection, NOTIFY, sql("wakeups.notify"), channels)
