"""Where an engine of tests keeps its state, looked at through connections of the moment.

Nothing is kept open, so that a test can look after its servers were away.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import redis.asyncio as redis
from perdure_store.pool import open_connection

from perdure_testkit.database import APPLICATION_NAME, Database, temporary_database
from perdure_testkit.servers import Servers, make_directory
from perdure_testkit.session import session_directory

FIRST_ENGINE_NUMBER = 8
"""Redis databases below belong to the tests that ask for `redis_url`, which empties them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A migrated database, a Redis database of its own, and a folder for logs and tokens."""

    database: Database
    redis_url: str
    directory: Path

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """Return the rows of a query, run as the superuser."""
        async with self.connection() as connection:
            return await connection.fetch(query, *arguments)

    async def execute(self, statement: str, *arguments: Any) -> None:
        """Run a statement as the superuser."""
        await self.fetch(statement, *arguments)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """Lend a connection of the superuser."""
        connection = await open_connection(self.database.url(), application_name=APPLICATION_NAME)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def redis(self) -> AsyncIterator[redis.Redis]:
        """Lend a connection to the Redis database."""
        client = redis.Redis.from_url(self.redis_url)
        try:
            yield client
        finally:
            await client.aclose()


@asynccontextmanager
async def temporary_place(servers: Servers, number: int) -> AsyncIterator[Place]:
    """Lend a place on the session's servers; no two at a time have the same `number`, from 0."""
    directory = make_directory("engine-", session_directory())
    base = servers.redis_url.rpartition("/")[0]
    try:
        async with temporary_database(servers.database_url, servers.template) as database:
            place = Place(database, f"{base}/{FIRST_ENGINE_NUMBER + number}", directory)
            async with place.redis() as client:
                await client.flushdb()
            yield place
    finally:
        shutil.rmtree(directory, ignore_errors=True)
