"""The connections of a service process: ready when the schema fits, closed when all has stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
from perdure_runtime.lifecycle import Component

from perdure_store.held import HeldConnection
from perdure_store.pool import acquire
from perdure_store.schema_version import schema_ready


class Closing(Component):
    """Closes connections; the first member of a group, so that it stops last."""

    def __init__(self, pool: asyncpg.Pool, *held: HeldConnection) -> None:
        super().__init__()
        self._pool = pool
        self._held = held

    async def on_start(self) -> None:
        """Nothing to do: connections are made by who needs them."""

    async def on_stop(self) -> None:
        """Close them."""
        for held in self._held:
            await held.close()
        await self._pool.close()


def schema_check(pool: asyncpg.Pool) -> Callable[[], Awaitable[str]]:
    """Return a readiness check: the database answers and has the schema that this release needs."""

    async def check() -> str:
        async with acquire(pool) as connection:
            await schema_ready(connection)
        return ""

    return check
