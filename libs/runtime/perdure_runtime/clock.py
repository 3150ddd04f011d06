"""The process clock: how long things took and when to look again, never what is due (R7).

Only the database clock decides about leases, timers and deadlines of runs. A process may use this
clock to wait, to measure, and to stop *sooner* than the database would make it stop.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from contextlib import suppress
from typing import Any, Protocol


class Clock(Protocol):
    """A monotonic clock and the two ways of waiting on it. Instants and durations are seconds."""

    def monotonic(self) -> float:
        """The present instant; only differences mean something."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""

    async def wait(self, event: asyncio.Event, timeout: float | None) -> bool:
        """Wait for `event`, at most `timeout` seconds; return whether the event is set."""


class SystemClock:
    """The machine's monotonic clock."""

    def monotonic(self) -> float:
        """The present instant in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, timeout: float | None) -> bool:
        """Wait for `event`, at most `timeout` seconds; return whether the event is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await event.wait()
        return event.is_set()


class FakeClock:
    """A clock that stands still until a test advances it."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now
        self._order = itertools.count()
        self._timers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._waiting = 0
        self._changed = asyncio.Event()

    def monotonic(self) -> float:
        """The instant that the test has reached."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return once the test has advanced by `seconds`."""
        await self._hold(self._timer(seconds))

    async def wait(self, event: asyncio.Event, timeout: float | None) -> bool:
        """Wait for `event` until the test has advanced by `timeout`; return whether it is set."""
        if event.is_set():
            return True
        signalled = asyncio.ensure_future(event.wait())
        try:
            await self._hold(signalled, *(() if timeout is None else (self._timer(timeout),)))
        finally:
            signalled.cancel()
        return event.is_set()

    async def advance(self, seconds: float) -> None:
        """Move on by `seconds`; every waiter due by then has gone on before this returns.

        What can run now runs before the clock moves. Waiters fire in the order in which they are
        due, each at its own instant, and what they schedule within `seconds` fires too.
        """
        end = self._now + seconds
        await self._settle()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if not timer.done():
                timer.set_result(None)
                await self._settle()
        self._now = end

    async def blocked(self, waiters: int = 1) -> None:
        """Return once at least `waiters` coroutines wait on this clock."""
        while self._waiting < waiters:
            self._changed.clear()
            await self._changed.wait()

    def _timer(self, seconds: float) -> asyncio.Future[None]:
        timer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._timers, (self._now + seconds, next(self._order), timer))
        return timer

    async def _hold(self, *futures: asyncio.Future[Any]) -> None:
        self._waiting += 1
        self._changed.set()
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting -= 1
            for future in futures:
                future.cancel()

    async def _settle(self) -> None:
        # A fired waiter runs on through the ready queue; a few turns let it reach its next wait.
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)


SETTLE_TURNS = 20
"""Turns of the event loop that a fired waiter is given before the fake clock moves on."""
