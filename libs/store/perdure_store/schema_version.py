"""Whether a database has the schema that a program needs."""

from __future__ import annotations

import asyncpg
from perdure_runtime.errors import FailedPrecondition, Reason

from perdure_store.classify import classified
from perdure_store.pool import Connection
from perdure_store.sql import sql

NEEDED_VERSION = 31
"""The lowest migration that the queries of this release work with: the last before a rollout."""


async def schema_version(connection: Connection) -> int:
    """Return the number of the highest migration applied; 0 for a database without any."""
    with classified():
        try:
            return await connection.fetchval(sql("migrations.version")) or 0
        except asyncpg.UndefinedTableError:
            return 0


async def schema_ready(
    connection: Connection, minimum: int = NEEDED_VERSION, maximum: int | None = None
) -> None:
    """Return when the schema's version lies between `minimum` and `maximum`, both included.

    A program of the release before runs beside a newer schema during a rollout, so there is no
    upper bound unless a caller knows one. Raises FailedPrecondition, SCHEMA_MISMATCH.
    """
    version = await schema_version(connection)
    if version < minimum:
        do_this = "run the migrations: perdure migrate"
    elif maximum is not None and version > maximum:
        do_this = "start a newer release of the program"
    else:
        return
    bound = f"at least {minimum}" + (f" and at most {maximum}" if maximum is not None else "")
    raise FailedPrecondition(
        f"what: the database schema has version {version}; this program needs {bound}\n"
        f"where: table schema_migrations\n"
        f"do this: {do_this}",
        reason=Reason.SCHEMA_MISMATCH,
        metadata={"version": str(version)},
    )
