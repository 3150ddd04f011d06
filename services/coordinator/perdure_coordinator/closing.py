"""Closes the connections of the process once everything that uses them has stopped."""

from __future__ import annotations

import asyncpg
from perdure_runtime.lifecycle import Component
from perdure_store.held import HeldConnection


class Closing(Component):
    """The first member of the group, so that it stops last."""

    def __init__(self, pool: asyncpg.Pool, *held: HeldConnection) -> None:
        super().__init__()
        self._pool = pool
        self._held = held

    async def on_start(self) -> None:
        """Nothing to do: the connections are made by who needs them."""

    async def on_stop(self) -> None:
        """Close them."""
        for held in self._held:
            await held.close()
        await self._pool.close()
