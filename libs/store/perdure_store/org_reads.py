"""The one place where ingest's reads are bound to an org (row-level security).

The setting is local to the transaction, so it suits a pooler and nothing is left behind for the
next who is lent the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from perdure_store.pool import acquire


@asynccontextmanager
async def reading(pool: asyncpg.Pool, org: str) -> AsyncIterator[PoolConnectionProxy]:
    """Lend a connection that sees rows of `org` alone and can write nothing; raises as `acquire`.

    Each statement sees what was committed when it began.
    """
    async with acquire(pool) as connection:
        # One round trip: a query with parameters would be another.
        begin = f"BEGIN READ ONLY; SET LOCAL perdure.org = {_literal(org)}"
        await connection.execute(begin)
        try:
            yield connection
        finally:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")


def _literal(text: str) -> str:
    """Return a text as SQL has it, whatever `standard_conforming_strings` says."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
