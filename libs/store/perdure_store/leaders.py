"""Elections in PostgreSQL: who holds a duty, and for how long, by the database clock alone (R7)."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
from perdure_runtime.fail_points import declare

from perdure_store.pool import acquire
from perdure_store.sql import sql
from perdure_store.transaction import write

ACQUIRE_LEADERSHIP = declare("store.acquire_leadership")
RELEASE_LEADERSHIP = declare("store.release_leadership")


class PostgresLeaseStore:
    """The `LeaseStore` of `perdure_runtime.election`, on the table `leaders`.

    Each call is one statement. Raises Unavailable, STORE_UNAVAILABLE, when the database is away:
    whether the lease was granted is then unknown, and asking again tells.
    """

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def acquire_or_renew(self, name: str, holder: str, ttl: float) -> float | None:
        """Take the duty `name` if it is free, expired or held by `holder`, for `ttl` seconds.

        Return the seconds that it has left for `holder`, or None when another holds it.
        """
        query = sql("leaders.acquire_or_renew")
        async with acquire(self._pool) as connection:
            rows = await write(
                connection, ACQUIRE_LEADERSHIP, query, name, holder, timedelta(seconds=ttl)
            )
        return rows[0]["remaining"] if rows else None

    async def release(self, name: str, holder: str) -> None:
        """Give the duty up, if `holder` holds it."""
        async with acquire(self._pool) as connection:
            await write(connection, RELEASE_LEADERSHIP, sql("leaders.release"), name, holder)
