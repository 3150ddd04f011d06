"""What a handler is told beside its input: which step, how long it has, whether to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from perdure.handler_costs import Costs


class Cancellation:
    """Tells a handler to stop at the next safe point; for threads and for coroutines alike.

    Set when the run was cancelled, when the try's time is up, when the worker shuts down, and when
    the step was lost to another worker.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._wakers: set[Callable[[], object]] = set()

    def is_set(self) -> bool:
        """Whether the handler should stop."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread, at most `timeout` seconds; tell whether the handler should stop."""
        event = threading.Event()
        with self._waking(event.set):
            return event.wait(timeout)

    async def wait_async(self) -> None:
        """Wait until the handler should stop without blocking the event loop."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        with self._waking(lambda: loop.call_soon_threadsafe(event.set)):
            await event.wait()

    def set(self) -> None:
        """Ask for the stop; called by the worker, from any thread."""
        with self._lock:
            self._is_set = True
            wakers, self._wakers = self._wakers, set()
        for wake in wakers:
            # The loop of who waited may have ended meanwhile.
            with suppress(RuntimeError):
                wake()

    @contextmanager
    def _waking(self, wake: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            self._wakers.add(wake)
            is_late = self._is_set
        if is_late:
            wake()
        try:
            yield
        finally:
            with self._lock:
                self._wakers.discard(wake)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """One try of one step.

    `attempt` counts as people do, failures plus one, from 1. `input_bytes` is the input as it was
    stored, byte for byte. `key_prefix` is the same for every try of the step. `deadline` is the
    instant on `time.monotonic()` at which the try is given up, None if the definition sets none.
    `logger` writes lines that name the run, the step and its fence. `traceparent` is the W3C trace
    context to send on, empty when the run is not traced. `costs` is told what the try has spent:
    `costs.add(0.03)`; without a word the node's estimate counts.
    """

    run_id: str
    workflow: str
    workflow_version: int
    node: str
    scope: str
    step: int
    attempt: int
    key_prefix: str
    input_bytes: bytes
    deadline: float | None
    cancelled: Cancellation
    logger: logging.Logger
    traceparent: str = ""
    costs: Costs = field(default_factory=Costs)

    def remaining(self) -> float | None:
        """Seconds until the try is given up, 0 when they are over, None if there is no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
