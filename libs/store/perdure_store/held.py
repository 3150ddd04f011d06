"""A connection that one task keeps for itself and that is made anew when it broke.

A pool cleans a connection up at every return, which costs a round trip: too much where one task
commits hundreds of times a second.
"""

from __future__ import annotations

import asyncpg

from perdure_store.pool import open_connection


class HeldConnection:
    """One connection to `url`; not to be used by two tasks at once."""

    def __init__(self, url: str, *, application_name: str) -> None:
        self._url = url
        self._application_name = application_name
        self._connection: asyncpg.Connection | None = None

    async def get(self) -> asyncpg.Connection:
        """Return the open connection. Raises what `open_connection` raises."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await open_connection(
                self._url, application_name=self._application_name
            )
        return self._connection

    async def close(self) -> None:
        """Close it, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await connection.close()
