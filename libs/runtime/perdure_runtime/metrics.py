"""Prometheus metrics: one prefix, base units, labels of few values, and what every process shows.

A metric is a module constant:

    PUBLISHED = counter("relay_published_total", "Entries added to streams.", ("lane",))

A run, a step or a worker is never a label: their number has no bound.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Sequence
from importlib.metadata import version

from prometheus_client import Counter as Counter
from prometheus_client import Gauge as Gauge
from prometheus_client import Histogram as Histogram
from prometheus_client import disable_created_metrics

from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.lifecycle import Component, finish

PREFIX = "perdure_"
UNBOUNDED_LABELS = frozenset({"run", "run_id", "step", "step_id", "worker", "worker_id", "lease"})

SECONDS_BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
SIZE_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
    """Make `perdure_<name>`; a counter's name ends in `_total`, else ValueError."""
    if not name.endswith("_total"):
        raise ValueError(f"counter {name} must end in _total")
    return Counter(_named(name, labels), text, labels)


def gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
    """Make `perdure_<name>`."""
    return Gauge(_named(name, labels), text, labels)


def histogram(
    name: str,
    text: str,
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float] = SECONDS_BUCKETS,
) -> Histogram:
    """Make `perdure_<name>`; by default its buckets are seconds."""
    return Histogram(_named(name, labels), text, labels, buckets=buckets)


def _named(name: str, labels: Sequence[str]) -> str:
    unbounded = UNBOUNDED_LABELS & set(labels)
    if unbounded:
        raise ValueError(f"metric {name} has labels without bound: {', '.join(sorted(unbounded))}")
    return PREFIX + name


BUILD_INFO = gauge(
    "build_info", "1, with what this process is.", ("service", "version", "python_version")
)
LOOP_LAG = gauge("event_loop_lag_seconds", "How late the event loop last ran a timer.")


def show_build(service: str) -> None:
    """Publish which service of which version this process is."""
    BUILD_INFO.labels(service, version("perdure-runtime"), platform.python_version()).set(1)


class LoopLag(Component):
    """Measures how late the event loop runs its timers; late means that something blocks it."""

    def __init__(self, *, interval: float = 0.25, clock: Clock | None = None) -> None:
        super().__init__()
        self._interval = interval
        self._clock = clock or SystemClock()
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.seconds = 0.0
        """The last lag that was measured."""

    async def on_start(self) -> None:
        """Begin to measure."""
        self._ended.clear()
        self._task = asyncio.create_task(self._run(), name="event loop lag")

    async def on_stop(self) -> None:
        """Measure no more."""
        self._ended.set()
        if self._task is not None:
            task, self._task = self._task, None
            await finish(task)

    async def _run(self) -> None:
        while not self._ended.is_set():
            due = self._clock.monotonic() + self._interval
            if not await self._clock.wait(self._ended, self._interval):
                self.seconds = max(0.0, self._clock.monotonic() - due)
                LOOP_LAG.set(self.seconds)
