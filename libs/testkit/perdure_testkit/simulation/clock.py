"""The simulation's time: what is to happen, in the order of its instants, one after the other."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from perdure_machine.memory import MemoryEngine

Act = Callable[[], None]


class Clock:
    """The store's clock, in seconds since the simulation began; there is no other one.

    `open` counts what is still to happen, without the rounds that services make for ever.
    """

    def __init__(self, store: MemoryEngine) -> None:
        self.now = 0.0
        self._store = store
        self._began = store.now
        self.open = 0
        self._agenda: list[tuple[float, int, Act, bool]] = []
        self._numbers = count()

    def later(self, seconds: float, act: Act) -> None:
        """Have something happen after some seconds."""
        self.open += 1
        self._add(seconds, act, counts=True)

    def every(self, seconds: float, act: Act) -> None:
        """Have a service make a round every so many seconds."""

        def again() -> None:
            act()
            self._add(seconds, again, counts=False)

        self._add(seconds, again, counts=False)

    def step(self) -> None:
        """Let the next thing happen."""
        self.now, _, act, counts = heapq.heappop(self._agenda)
        self._store.now = self._began + self.now
        self.open -= counts
        act()

    def _add(self, seconds: float, act: Act, *, counts: bool) -> None:
        instant = self.now + max(0.0, seconds)
        heapq.heappush(self._agenda, (instant, next(self._numbers), act, counts))
