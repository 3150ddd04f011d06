"""The pytest plugin: servers for the session, a database and a Redis for each test that asks.

A test that used `database` ends with an empty view of steps without a way forward (R10), unless it
is marked `breaks_r10("why")`.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from perdure_stack.postgres import EmbeddedPostgres
from perdure_stack.valkey import EmbeddedValkey

from perdure_testkit.database import EMPTY_TEMPLATE, Database, temporary_database
from perdure_testkit.servers import TEST_SETTINGS, Servers, make_directory
from perdure_testkit.session import TestSession, session_directory, session_servers
from perdure_testkit.units import turn_of

R10_MARKER = "breaks_r10"

_session = pytest.StashKey[TestSession]()


def pytest_configure(config: pytest.Config) -> None:
    """Open the session in the process that runs it, and register the marker."""
    config.addinivalue_line(
        "markers", f"{R10_MARKER}(reason): leaves steps without a way forward on purpose (R10)"
    )
    if not hasattr(config, "workerinput"):
        config.stash[_session] = TestSession()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the session."""
    if _session in config.stash:
        config.stash[_session].close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what takes longest come first."""
    items.sort(key=lambda item: turn_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of one engine together."""
    # Imported here: a session of one process needs no xdist.
    from perdure_testkit.scheduling import EngineScheduling

    return EngineScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(scope="session")
def servers() -> Servers:
    """The session's PostgreSQL and Redis, shared by all tests of all workers."""
    return session_servers()


@pytest.fixture(scope="session")
def postgres_server(servers: Servers) -> str:
    """The superuser's URL of the session's PostgreSQL."""
    return servers.database_url


@pytest.fixture(scope="session")
def valkey_server(servers: Servers) -> str:
    """The URL of the session's Redis or Valkey; tests use `redis_url`."""
    return servers.redis_url


@pytest.fixture
async def database(servers: Servers, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A migrated database of the test's own; at its end the R10 view is empty."""
    async with temporary_database(servers.database_url, servers.template) as database:
        yield database
        if request.node.get_closest_marker(R10_MARKER) is None:
            stuck = await database.without_way_forward()
            assert not stuck, "R10: no way forward for\n" + "\n".join(stuck)


@pytest.fixture
async def empty_database(servers: Servers) -> AsyncIterator[Database]:
    """A database of the test's own without any migration."""
    async with temporary_database(servers.database_url, EMPTY_TEMPLATE) as database:
        yield database


@pytest.fixture
async def redis_url(valkey_server: str, worker_number: int) -> AsyncIterator[str]:
    """The URL of an empty Redis database that no other test uses meanwhile."""
    # Imported here: it takes longer than most tests, and most do not need it.
    import redis.asyncio as redis

    url = f"{valkey_server.rpartition('/')[0]}/{worker_number}"
    client = redis.Redis.from_url(url)
    await client.flushdb()
    yield url
    await client.aclose()


@pytest.fixture(scope="session")
def worker_number(request: pytest.FixtureRequest) -> int:
    """The number of this test process, from 0."""
    name: str = getattr(request.config, "workerinput", {}).get("workerid", "gw0")
    return int(name.removeprefix("gw"))


@pytest.fixture
def own_directory() -> Iterator[Path]:
    """A directory in which a server of the test's own can live."""
    directory = make_directory("own-", session_directory())
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def own_postgres(own_directory: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A started, empty PostgreSQL of the test's own, which it may stop and kill."""
    server = EmbeddedPostgres(own_directory / "postgres", durable=False, settings=TEST_SETTINGS)
    await server.start()
    yield server
    await server.destroy()


@pytest.fixture
async def own_valkey(own_directory: Path) -> AsyncIterator[EmbeddedValkey]:
    """A started, empty Valkey of the test's own, which it may stop and kill; it keeps its data."""
    server = EmbeddedValkey(own_directory / "valkey")
    await server.start()
    yield server
    await server.destroy()
