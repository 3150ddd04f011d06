"""Starts the PostgreSQL and the Redis that a test session uses.

Those named by PERDURE_DATABASE_URL and PERDURE_REDIS_URL are used as they are; what is not named
is a container where Docker answers, else an embedded server.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from perdure_stack.backends import DATABASE_URL, REDIS_URL
from perdure_stack.postgres import EmbeddedPostgres
from perdure_stack.valkey import EmbeddedValkey

from perdure_testkit.containers import docker_answers, start_postgres, start_valkey
from perdure_testkit.servers import TEST_SETTINGS


async def start_servers(
    directory: Path, environ: Mapping[str, str], stack: AsyncExitStack
) -> tuple[str, str]:
    """Start what is not named; return the URLs of both. `stack` stops them."""
    database_url = environ.get(DATABASE_URL) or await _start_postgres(directory, stack)
    redis_url = environ.get(REDIS_URL) or await _start_valkey(directory, stack)
    return database_url, redis_url


async def _start_postgres(directory: Path, stack: AsyncExitStack) -> str:
    if docker_answers():
        return start_postgres(stack)
    server = EmbeddedPostgres(directory / "postgres", durable=False, settings=TEST_SETTINGS)
    stack.push_async_callback(server.destroy)
    await server.start()
    return server.dsn()


async def _start_valkey(directory: Path, stack: AsyncExitStack) -> str:
    if docker_answers():
        return start_valkey(stack)
    server = EmbeddedValkey(directory / "valkey", durable=False)
    stack.push_async_callback(server.destroy)
    await server.start()
    return server.url
