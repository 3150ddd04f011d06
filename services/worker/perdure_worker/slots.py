"""How many steps this worker runs at once; what it may read from Redis is what is free of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Places(Protocol):
    """Where steps go that are read; each entry takes one until nothing of it is left to do."""

    @property
    def free(self) -> int:
        """How many entries may be read."""

    def take(self) -> None:
        """Use one for an entry that was read."""

    def give_back(self) -> None:
        """Free one that was taken."""


class Slots:
    """Counts slots of one event loop."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.given_back = 0
        """How often a slot was given back since the beginning."""
        self._used = 0
        self._listeners: list[Callable[[], None]] = []
        self._none_used = asyncio.Event()
        self._none_used.set()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a slot was taken or given back."""
        self._listeners.append(listener)

    @property
    def used(self) -> int:
        """Slots that hold a step or an entry that may become one."""
        return self._used

    @property
    def free(self) -> int:
        """Slots that hold nothing."""
        return self.capacity - self._used

    def take(self) -> None:
        """Use one slot; ValueError if none is free."""
        if self._used >= self.capacity:
            raise ValueError("no slot is free")
        self._set(self._used + 1)

    def give_back(self) -> None:
        """Free one slot that was taken."""
        self.given_back += 1
        self._set(self._used - 1)

    async def wait_idle(self) -> None:
        """Return when no slot is used."""
        await self._none_used.wait()

    def _set(self, used: int) -> None:
        self._used = used
        if used:
            self._none_used.clear()
        else:
            self._none_used.set()
        for listener in self._listeners:
            listener()
