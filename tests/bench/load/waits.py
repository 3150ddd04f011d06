"""What active backends wait for, looked at many times a second."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

EVERY = 0.02  # seconds

ON_CPU = "on a core, or waiting for one"

_ACTIVE = """
SELECT coalesce(replace(usename, 'perdure_', ''), backend_type)::text AS who,
       coalesce(wait_event_type || ' ' || wait_event, $1) AS what
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid() AND state = 'active' AND backend_type = 'client backend'
"""


@dataclass(slots=True)
class Waits:
    """How often which role's backend was found waiting for what, in how many looks."""

    looks: int = 0
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def average(self) -> Mapping[tuple[str, str], float]:
        """Return how many backends were in each state at a time, the most frequent first."""
        return {state: count / max(1, self.looks) for state, count in self.seen.most_common()}


@asynccontextmanager
async def watching(url: str) -> AsyncIterator[Waits]:
    """Look at the backends of a database until the end of the block."""
    connection = await asyncpg.connect(url)
    waits = Waits()
    task = asyncio.create_task(_watch(connection, waits))
    try:
        yield waits
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await connection.close()


async def _watch(connection: asyncpg.Connection, waits: Waits) -> None:
    look = await connection.prepare(_ACTIVE)
    while True:
        waits.seen.update((row["who"], row["what"]) for row in await look.fetch(ON_CPU))
        waits.looks += 1
        await asyncio.sleep(EVERY)
