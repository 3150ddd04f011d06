"""A connection that one task keeps for itself and that is made anew when it broke.

A pool cleans a connection up at every return, which costs a round trip: too much where one task
commits hundreds of times a second. It keeps its plans for a bounded time: one that was made while
a table was small may read all of a run once it has grown, and no table is analyzed the moment it
grows. The first plans live as long as a new month stays small; later ones live longer.
"""

from __future__ import annotations

import asyncpg
from perdure_runtime.backoff import growing
from perdure_runtime.clock import Clock

from perdure_store.pool import open_connection

FIRST_PLANS_SECONDS, LATER_PLANS_SECONDS = 1.0, 30.0
"""How long the first plans of a connection are kept, and at most its later ones; each lot is kept
twice as long as the one before (decision 37).
"""


class HeldConnection:
    """One connection to `url`; not to be used by two tasks at once."""

    def __init__(self, url: str, clock: Clock, *, application_name: str) -> None:
        self._url = url
        self._clock = clock
        self._application_name = application_name
        self._connection: asyncpg.Connection | None = None
        self._plans = 0
        self._plans_end = 0.0

    async def get(self) -> asyncpg.Connection:
        """Return the open connection, its plans not too old. Raises as `open_connection` does."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await open_connection(
                self._url, application_name=self._application_name
            )
            self._plans = 0
            self._plan_anew()
        elif self._clock.monotonic() >= self._plans_end:
            await self._connection.execute("DISCARD PLANS")
            self._plan_anew()
        return self._connection

    def _plan_anew(self) -> None:
        self._plans += 1
        lifetime = growing(self._plans, FIRST_PLANS_SECONDS, 2.0, LATER_PLANS_SECONDS)
        self._plans_end = self._clock.monotonic() + lifetime

    async def close(self) -> None:
        """Close it, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await connection.close()
