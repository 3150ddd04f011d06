"""One set of servers and one engine for these tests; each leaves them running."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest_asyncio
from perdure_stack.postgres import EmbeddedPostgres
from perdure_stack.services import process_names
from perdure_stack.valkey import EmbeddedValkey
from perdure_testkit.database import make_template, temporary_database
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.place import Place
from perdure_testkit.provider import Provider
from perdure_testkit.servers import TEST_SETTINGS, make_directory
from perdure_testkit.session import session_directory
from perdure_testkit.tours import Tours

from tests.chaos.rig import Rig


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def rig() -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        directory = make_directory("chaos-", session_directory())
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        postgres = EmbeddedPostgres(directory / "postgres", durable=False, settings=TEST_SETTINGS)
        stack.push_async_callback(postgres.destroy)
        await postgres.start()
        valkey = EmbeddedValkey(directory / "valkey")
        stack.push_async_callback(valkey.destroy)
        await valkey.start()
        template = await make_template(postgres.dsn())
        database = await stack.enter_async_context(temporary_database(postgres.dsn(), template))
        provider = Provider()
        await provider.start()
        stack.push_async_callback(provider.stop)
        engine = Engine(Place(database, valkey.url, directory), Crew(process_names(2)))
        await stack.enter_async_context(engine)
        tours = Tours(engine, provider)
        await tours.publish()
        yield Rig(postgres, valkey, tours)
