"""A background loop: a bounded pass, then a wait that a wake-up cuts short.

The pass does the work and returns counts; the loop only ticks, reports and backs off. A pass that
fails never ends the loop: the next one comes after a growing wait, and a fault that lasts is
logged when it begins, when it changes its kind and when it ends, not at each try.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component, finish
from perdure_runtime.logs import emit, log, log_failure
from perdure_runtime.metrics import counter
from perdure_runtime.tracing import quiet

DEFAULT_BACKOFF = Backoff(base=0.1, factor=2.0, cap=10.0)

PASSES = counter("loop_passes_total", "Passes of a background loop.", ("loop", "outcome"))
ITEMS = counter("loop_items_total", "What passes counted.", ("loop", "kind"))

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did: counts by name, and whether more work is waiting right now."""

    counts: Mapping[str, int] = field(default_factory=dict)
    more: bool = False


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How often a loop ticks. `interval` is seconds between passes, `spread` the share of it
    (0 to 1) by which each wait is shortened at random, so that replicas do not tick together.
    """

    interval: float
    spread: float = 0.1
    backoff: Backoff = DEFAULT_BACKOFF


Observer = Callable[[Pass | Exception], None]


class Loop(Component):
    """Runs `run_once` again and again; `observe` hears of every pass and of every failure."""

    def __init__(
        self,
        name: str,
        run_once: Callable[[], Awaitable[Pass]],
        settings: LoopSettings,
        *,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        observe: Observer | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self._run_once = run_once
        self._settings = settings
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._observe = observe
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._failing_as = ""

    def wake(self) -> None:
        """Make the next pass come at once; wake-ups during a pass are kept and are one."""
        self._woken.set()

    async def on_start(self) -> None:
        """Begin with a pass at once."""
        self._stopping.clear()
        self._task = asyncio.create_task(self._run(), name=f"loop {self.name}")

    async def drain(self) -> None:
        """Begin no further pass."""
        self._stopping.set()
        self._woken.set()

    async def on_stop(self) -> None:
        """Let the pass in flight finish; if this is cancelled, cancel the pass."""
        await self.drain()
        if self._task is not None:
            task, self._task = self._task, None
            await finish(task)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            pause = await self._pass()
            if self._stopping.is_set():
                return
            if pause > 0.0:
                await self._clock.wait(self._woken, pause)
            else:
                await asyncio.sleep(0)

    async def _pass(self) -> float:
        try:
            with quiet():
                done = await self._run_once()
        except Exception as error:  # noqa: BLE001 - classified and logged by _failed
            return self._failed(error)
        self._succeeded(done)
        if done.more:
            return 0.0
        return self._settings.interval * (1.0 - self._settings.spread * self._jitter())

    def _failed(self, error: Exception) -> float:
        self._failures += 1
        PASSES.labels(self.name, "failed").inc()
        kind = error.reason if isinstance(error, PerdureError) else type(error).__name__
        if kind != self._failing_as:
            self._failing_as = kind
            log_failure(_logger, "loop.failed", error, loop=self.name)
        if self._observe is not None:
            self._observe(error)
        return self._settings.backoff.seconds(self._failures, self._jitter())

    def _succeeded(self, done: Pass) -> None:
        if self._failures:
            log(_logger, "loop.recovered", loop=self.name, failures=self._failures)
            self._failures, self._failing_as = 0, ""
        PASSES.labels(self.name, "done").inc()
        for kind, amount in done.counts.items():
            ITEMS.labels(self.name, kind).inc(amount)
        if any(done.counts.values()):
            emit(_logger, "loop.pass", {"loop": self.name, **done.counts}, level=logging.DEBUG)
        if self._observe is not None:
            self._observe(done)
