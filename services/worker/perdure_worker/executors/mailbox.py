"""Calls from other threads into an event loop, many of them by one wake-up.

`call_soon_threadsafe` writes to a socket each time, and the thread that it wakes competes for the
interpreter with the one that goes on: that costs more than a short handler does.
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
        """Have `call` made in the loop; from any thread. A closed loop makes no calls any more.

        What one turn of the poster's own loop posts is told together, at its end.
        """
        self._calls.append(call)
        # Set before, cleared before the delivery looks: whoever finds it set will be looked for.
        if not self._is_woken:
            self._is_woken = True
            try:
                asyncio.get_running_loop().call_soon(self._wake)
            except RuntimeError:
                self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_woken = False
        while self._calls:
            self._calls.popleft()()
