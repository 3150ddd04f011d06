"""Calls from other threads into an event loop, many of them by one wake-up.

`call_soon_threadsafe` writes to a socket each time, which costs more than a short handler does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

Call = Callable[[], None]


class Mailbox:
    """Delivers calls to one loop in the order in which they were posted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Call] = deque()
        self._is_woken = False

    def post(self, call: Call) -> None:
        """Have `call` made in the loop; from any thread. A closed loop makes no calls any more."""
        self._calls.append(call)
        # Set before, cleared before the delivery looks: whoever finds it set will be looked for.
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_woken = False
        while self._calls:
            self._calls.popleft()()
