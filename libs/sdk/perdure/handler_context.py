"""What a handler is told beside its input: which step, how long it has, whether to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass


class Cancellation:
    """Tells a handler to stop at the next safe point; for threads and for coroutines alike.

    Set when the run was cancelled, when the try's time is up, when the worker shuts down, and when
    the step was lost to another worker.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._sleepers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def is_set(self) -> bool:
        """Whether the handler should stop."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread, at most `timeout` seconds; tell whether the handler should stop."""
        return self._event.wait(timeout)

    async def wait_async(self) -> None:
        """Wait until the handler should stop without blocking the event loop."""
        sleeper = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._sleepers.add(sleeper)
            if self._event.is_set():
                sleeper[1].set()
        try:
            await sleeper[1].wait()
        finally:
            with self._lock:
                self._sleepers.discard(sleeper)

    def set(self) -> None:
        """Ask for the stop; called by the worker, from any thread."""
        with self._lock:
            self._event.set()
            sleepers = tuple(self._sleepers)
        for loop, event in sleepers:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """One try of one step.

    `attempt` counts as people do, failures plus one, from 1. `input_bytes` is the input as it was
    stored, byte for byte. `key_prefix` is the same for every try of the step. `deadline` is the
    instant on `time.monotonic()` at which the try is given up, None if the definition sets none.
    `logger` writes lines that name the run, the step and its fence. `traceparent` is the W3C trace
    context to send on, empty when the run is not traced.
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

    def remaining(self) -> float | None:
        """Seconds until the try is given up, 0 when they are over, None if there is no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
