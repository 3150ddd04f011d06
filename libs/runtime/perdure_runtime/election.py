"""One leader per name, by a short lease in the database: relay shards, timer, sweeper.

Authority. The database alone decides who leads: a row per name holds the holder and the instant at
which its lease ends, by the database clock. Nothing in this module can make two leaders; at worst
there is none for a while.

States. A candidate *follows* until a request grants it the lease, then it *leads*. It follows again
when the database names another holder, when its trust ends unrenewed, or when it stops.

    follows --granted--> leads --refused | trust over | stop--> follows

Trust window. A grant says how many seconds the lease has left. The candidate counts them from the
moment it *sent* the request, on its own monotonic clock (R7), and stops `margin` seconds early. So
a slow answer shortens the window and a fast or slow wall clock does not matter. `is_leader` is
computed from the clock at each look: it turns false by itself, also while a renewal hangs.

Failure rules.
- A renewal that fails changes nothing until the trust ends; the next try comes soon.
- A renewal that hangs is given up when the trust ends; callbacks are told before it is cancelled.
- An answer that is lost may leave the lease with us unknown; the next request by the same holder
  renews it, and if none comes it runs out.
- Stopping tells callbacks first and releases the lease then, so the next leader starts at once.
  In a Group the election stands before the loops that act under it, so it stops after them.
- A paused process wakes up after its lease: each pass asks `is_leader` at its start, and what a
  pass writes must be harmless when repeated by the next leader. Leadership avoids double work; it
  is never what makes work correct.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol

from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import Reason, Unavailable
from perdure_runtime.lifecycle import Component, finish
from perdure_runtime.logs import log, log_failure

_logger = logging.getLogger(__name__)

NEVER = -math.inf


class LeaseStore(Protocol):
    """Where leases live."""

    async def acquire_or_renew(self, name: str, holder: str, ttl: float) -> float | None:
        """Take the lease on `name` if it is free, expired or held by `holder`, for `ttl` seconds.

        Return the seconds that it has left for `holder`, or None when another holds it.
        """

    async def release(self, name: str, holder: str) -> None:
        """Give the lease up, if `holder` holds it."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Seconds: `ttl` of a lease, `renew_every` between requests, `margin` kept before its end,
    `retry` after a request that failed. ValueError unless margin < ttl and a renewal fits.
    """

    ttl: float = 10.0
    renew_every: float = 3.0
    margin: float = 1.0
    retry: float = 0.5

    def __post_init__(self) -> None:
        """Refuse windows in which no renewal fits."""
        if not 0 < self.renew_every < self.ttl - self.margin or self.retry <= 0 or self.margin < 0:
            raise ValueError(f"no renewal fits into {self}")


def trusted_until(sent_at: float, left: float | None, settings: ElectionSettings) -> float:
    """Until when, on the clock of `sent_at`, a candidate may act on an answer; NEVER if refused."""
    return NEVER if left is None else sent_at + left - settings.margin


def pause_before_next(
    failed: bool, until: float, now: float, settings: ElectionSettings, jitter: float
) -> float:
    """Seconds to the next request; a leader never waits beyond the end of its trust.

    Requests are spread over the last fifth of the interval by `jitter` in [0, 1).
    """
    interval = settings.retry if failed else settings.renew_every
    spread = interval * (1.0 - 0.2 * jitter)
    return min(spread, until - now) if until > now else spread


Listener = Callable[[bool], None]


class Leadership:
    """What those who act under the lease look at."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._until = NEVER
        self._told = False
        self._gained = asyncio.Event()
        self._listeners: list[Listener] = []

    @property
    def is_leader(self) -> bool:
        """Whether this process may act, at this moment."""
        return self.time_left > 0.0

    @property
    def time_left(self) -> float:
        """Seconds for which this process may act without another grant; 0 when it may not."""
        return max(0.0, self._until - self._clock.monotonic())

    async def wait_leader(self) -> None:
        """Return once this process may act."""
        while not self.is_leader:
            self._gained.clear()
            await self._gained.wait()

    def on_change(self, listener: Listener) -> None:
        """Call `listener(True)` when leadership begins and `listener(False)` when it ends.

        Listeners run in the event loop, must not block, and hear of an end no later than it comes.
        """
        self._listeners.append(listener)

    def trust_until(self, until: float) -> None:
        """Take a new end of trust; for the election alone."""
        self._until = until
        leads = self.is_leader
        if leads:
            self._gained.set()
        if leads != self._told:
            self._told = leads
            log(_logger, "election.gained" if leads else "election.lost", election=self.name)
            for listener in self._listeners:
                listener(leads)

    @property
    def until(self) -> float:
        """The end of trust on the monotonic clock."""
        return self._until


class Election(Component):
    """Keeps asking for the lease `name` as `holder`, which no other process ever uses."""

    def __init__(
        self,
        name: str,
        holder: str,
        store: LeaseStore,
        settings: ElectionSettings | None = None,
        *,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__()
        self._holder = holder
        self._store = store
        self._settings = settings or ElectionSettings()
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._stopping = asyncio.Event()
        self._attention = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self.leadership = Leadership(name, self._clock)

    async def on_start(self) -> None:
        """Begin as a follower and ask at once."""
        self._stopping.clear()
        self._task = asyncio.create_task(self._run(), name=f"election {self.leadership.name}")

    async def on_stop(self) -> None:
        """Step down, then release the lease."""
        self._stopping.set()
        self._attention.set()
        self.leadership.trust_until(NEVER)
        if self._task is not None:
            task, self._task = self._task, None
            await finish(task)
        await self._release()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            failed = not await self._ask()
            if self._stopping.is_set():
                return
            until, now = self.leadership.until, self._clock.monotonic()
            pause = pause_before_next(failed, until, now, self._settings, self._jitter())
            await self._clock.wait(self._stopping, pause)
            self._end_if_over()

    async def _ask(self) -> bool:
        sent_at = self._clock.monotonic()
        try:
            left = await self._bounded(self._request())
        except Exception as error:  # noqa: BLE001 - classified and logged by _failed
            self._failed(error)
            return False
        self._failing = False
        if not self._stopping.is_set():
            self.leadership.trust_until(trusted_until(sent_at, left, self._settings))
        return True

    async def _request(self) -> float | None:
        return await self._store.acquire_or_renew(
            self.leadership.name, self._holder, self._settings.ttl
        )

    async def _bounded(self, request: Coroutine[None, None, float | None]) -> float | None:
        """Await an answer while the trust lasts, or one lease length when there is none.

        A stop ends the waiting too: it must not take as long as a store that hangs.
        """
        task = asyncio.ensure_future(request)
        self._attention.clear()
        task.add_done_callback(lambda _: self._attention.set())
        try:
            patience = self.leadership.time_left or self._settings.ttl
            await self._clock.wait(self._attention, patience)
            if task.done():
                return task.result()
            self._end_if_over()
            raise Unavailable("the lease store did not answer", reason=Reason.STORE_UNAVAILABLE)
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _end_if_over(self) -> None:
        if not self.leadership.is_leader:
            self.leadership.trust_until(NEVER)

    def _failed(self, error: Exception) -> None:
        self._end_if_over()
        if not self._failing and not self._stopping.is_set():
            self._failing = True
            log_failure(_logger, "election.failed", error, election=self.leadership.name)

    async def _release(self) -> None:
        try:
            await self._store.release(self.leadership.name, self._holder)
        except Exception as error:  # noqa: BLE001 - logged; the lease runs out by itself
            log_failure(_logger, "election.release_failed", error, election=self.leadership.name)
