"""Runs the migrations that a database lacks, safely under several runners at once.

Runners take turns by an advisory lock that is only ever tried, never waited for: a runner that
waits inside PostgreSQL holds a snapshot, for which CREATE INDEX CONCURRENTLY of another waits in
turn, a deadlock. Each file is a transaction of its own, so a failing one leaves the earlier ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import asyncpg
from perdure_runtime.errors import FailedPrecondition, PerdureError
from perdure_runtime.fail_points import declare

from perdure_store.migration_files import Migration, Phase, bad_migrations, select, statements
from perdure_store.sql import sql
from perdure_store.transaction import transaction, write

APPLY_MIGRATION = declare("store.apply_migration")
APPLY_STATEMENT = declare("store.apply_migration_statement")
CREATE_LEDGER = declare("store.create_schema_migrations")

LOCK_KEY = 0x5065726475726531  # "Perdure1"
LOCK_WAIT = 120.0
"""Longest wait, in seconds, for another runner to finish."""
LOCK_INTERVAL = 0.1  # seconds between two tries
LOCK_TIMEOUT = "5s"
"""Longest wait of a migration for a lock on a table, so that it never queues up the services."""


@dataclass(frozen=True, slots=True)
class Applied:
    """One row of schema_migrations."""

    version: int
    name: str
    sha256: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """What a database has, and what it lacks of a set of migrations."""

    applied: tuple[Applied, ...]
    pending: tuple[Migration, ...]


async def migrate(
    connection: asyncpg.Connection,
    migrations: Sequence[Migration],
    phase: Phase = Phase.ALL,
    *,
    lock_wait: float = LOCK_WAIT,
) -> tuple[Migration, ...]:
    """Run what the database lacks and return it; the connection must reach the server directly.

    Raises FailedPrecondition, SCHEMA_MISMATCH, when an applied file was changed, when a step
    fails, or when another runner holds the lock for more than `lock_wait` seconds.
    """
    async with _turn(connection, lock_wait):
        await _create_ledger(connection)
        todo = select((await read_status(connection, migrations)).pending, phase)
        for migration in todo:
            await _apply(connection, migration)
    return todo


async def read_status(connection: asyncpg.Connection, migrations: Sequence[Migration]) -> Status:
    """Return what is applied and what is pending; raises as `migrate` for a changed file."""
    applied = await _applied(connection)
    by_version = {row.version: row for row in applied}
    _refuse_changed(migrations, by_version)
    pending = tuple(m for m in migrations if m.version not in by_version)
    return Status(applied, pending)


@asynccontextmanager
async def _turn(connection: asyncpg.Connection, lock_wait: float) -> AsyncIterator[None]:
    deadline = asyncio.get_running_loop().time() + lock_wait
    while not await connection.fetchval(sql("migrations.try_lock"), LOCK_KEY):
        if asyncio.get_running_loop().time() > deadline:
            raise bad_migrations(
                f"another runner has held the migration lock for {lock_wait:g} s",
                "pg_locks, locktype advisory",
                "wait until it is done and run this again",
            )
        await asyncio.sleep(LOCK_INTERVAL)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.fetchval(sql("migrations.unlock"), LOCK_KEY)


async def _create_ledger(connection: asyncpg.Connection) -> None:
    await connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
    if not await _has_ledger(connection):
        await write(connection, CREATE_LEDGER, sql("migrations.create_ledger"))


async def _has_ledger(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval(sql("migrations.has_ledger")))


async def _applied(connection: asyncpg.Connection) -> tuple[Applied, ...]:
    if not await _has_ledger(connection):
        return ()
    rows = await connection.fetch(sql("migrations.applied"))
    return tuple(Applied(**dict(row)) for row in rows)


def _refuse_changed(migrations: Sequence[Migration], applied: Mapping[int, Applied]) -> None:
    for migration in migrations:
        row = applied.get(migration.version)
        if row is not None and (row.name, row.sha256) != (migration.name, migration.sha256):
            raise bad_migrations(
                f"migration {migration.version:04} was changed after it was applied as {row.name}",
                migration.name,
                "restore the file as it was, and make the change in a migration of its own",
            )


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    try:
        if migration.in_transaction:
            await _apply_whole(connection, migration)
        else:
            await _apply_by_statement(connection, migration)
    except FailedPrecondition:
        raise
    except (asyncpg.PostgresError, PerdureError) as error:
        raise _failed(migration, error) from error


async def _apply_whole(connection: asyncpg.Connection, migration: Migration) -> None:
    async with transaction(connection, APPLY_MIGRATION):
        await connection.execute(migration.text)
        if not connection.is_in_transaction():
            raise bad_migrations(
                "the file ends the transaction that it is run in",
                migration.name,
                "take COMMIT and ROLLBACK out, or begin the file with '-- no transaction'",
            )
        await connection.execute(sql("migrations.record"), *_record(migration))


async def _apply_by_statement(connection: asyncpg.Connection, migration: Migration) -> None:
    for statement in statements(migration.text):
        await write(connection, APPLY_STATEMENT, statement)
    await write(connection, APPLY_MIGRATION, sql("migrations.record"), *_record(migration))


def _record(migration: Migration) -> tuple[int, str, str]:
    return migration.version, migration.name, migration.sha256


def _failed(migration: Migration, error: Exception) -> PerdureError:
    kept = (
        "nothing of it was kept"
        if migration.in_transaction
        else "statements before the failing one were kept"
    )
    return bad_migrations(
        f"the migration failed: {error}",
        f"{migration.name}; earlier ones stay applied, {kept}",
        "put right what it names and run the migrations again; they go on from here",
    )
