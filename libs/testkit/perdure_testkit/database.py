"""A database of its own for each test: a clone of a template that was migrated once."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from perdure_store.migrate import migrate
from perdure_store.migration_files import bundled_migrations, read_migrations
from perdure_store.pool import open_connection, open_pool

APPLICATION_NAME = "perdure-test"
EMPTY_TEMPLATE = "template0"
"""What a database without any migration is cloned from."""

ROLES = ("coordinator", "ingest", "relay", "timer", "sweeper")
ROLE_PASSWORD = "perdure-test"
"""Of the services' roles; an embedded server does not ask for it."""

POOL_SIZE = 10
SHOWN_ROWS = 20

_SOMETHING_RUNS = "SELECT EXISTS (SELECT FROM runs WHERE status = 'running')"


def url_of(admin_url: str, database: str, role: str | None = None) -> str:
    """Return the URL of a database for a service's role (`coordinator`), or for the superuser."""
    parts = urlsplit(admin_url)
    place = parts.netloc
    if role is not None:
        place = f"perdure_{role}:{ROLE_PASSWORD}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=place, path=f"/{database}"))


class Database:
    """One database, and the connections and pools that a test opened to it."""

    def __init__(self, admin_url: str, name: str) -> None:
        self._admin_url = admin_url
        self.name = name
        self._opened: list[asyncpg.Connection | asyncpg.Pool] = []

    def url(self, role: str | None = None) -> str:
        """Return the URL for a service's role, such as `coordinator`, or for the superuser."""
        return url_of(self._admin_url, self.name, role)

    async def connect(self, role: str | None = None) -> asyncpg.Connection:
        """Open a connection that is closed after the test."""
        connection = await open_connection(self.url(role), application_name=APPLICATION_NAME)
        self._opened.append(connection)
        return connection

    async def open_pool(self, role: str | None = None, *, size: int = POOL_SIZE) -> asyncpg.Pool:
        """Open a pool that is closed after the test."""
        pool = await open_pool(self.url(role), size=size, application_name=APPLICATION_NAME)
        self._opened.append(pool)
        return pool

    async def disconnect(self) -> None:
        """End all that the test opened, whatever it is doing."""
        for opened in self._opened:
            opened.terminate()

    async def without_way_forward(self) -> list[str]:
        """Return the first rows of the R10 view as text; empty when every run can go on."""
        connection = await open_connection(self.url(), application_name=APPLICATION_NAME)
        try:
            # All that the view shows belongs to a running run, and to plan it takes longest.
            if not await connection.fetchval(_SOMETHING_RUNS):
                return []
            # Its plan for a run or two is as good in the order in which the view is written, and
            # made in half the time.
            await connection.execute("SET join_collapse_limit = 1")
            rows = await connection.fetch(f"SELECT * FROM no_way_forward LIMIT {SHOWN_ROWS}")
        finally:
            await connection.close()
        return [f"run {row['run_id']} step {row['step']}: {row['missing']}" for row in rows]


@asynccontextmanager
async def temporary_database(admin_url: str, template: str) -> AsyncIterator[Database]:
    """Lend a clone of `template` that is dropped at the end with all its connections."""
    database = Database(admin_url, _new_name())
    # Copying files takes half the time of writing them through the log.
    await _administer(
        admin_url, f'CREATE DATABASE "{database.name}" TEMPLATE "{template}" STRATEGY file_copy'
    )
    try:
        yield database
    finally:
        await database.disconnect()
        await drop_database(admin_url, database.name)


async def make_template(admin_url: str) -> str:
    """Make a migrated database that nobody connects to; return its name."""
    name = _new_name()
    await _administer(admin_url, f'CREATE DATABASE "{name}"')
    connection = await open_connection(
        url_of(admin_url, name), application_name=APPLICATION_NAME, command_timeout=None
    )
    try:
        await migrate(connection, read_migrations(bundled_migrations()))
        for role in ROLES:
            await connection.execute(f"ALTER ROLE perdure_{role} PASSWORD '{ROLE_PASSWORD}'")
    finally:
        await connection.close()
    await _administer(admin_url, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    return name


async def drop_database(admin_url: str, name: str) -> None:
    """Drop a database and whatever is connected to it."""
    await _administer(admin_url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _new_name() -> str:
    return f"perdure_test_{uuid.uuid4().hex[:12]}"


async def _administer(admin_url: str, statement: str) -> None:
    connection = await open_connection(
        admin_url, application_name=APPLICATION_NAME, command_timeout=None
    )
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
