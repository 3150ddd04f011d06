"""How a handler is told to stop, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


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
