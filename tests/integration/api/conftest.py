"""A real ingest before a real coordinator, both in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from perdure_ingest.app import Ingest
from perdure_ingest.config import IngestConfig
from perdure_store.pool import open_pool
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database


@pytest.fixture
async def api_key(database: Database) -> str:
    """The key of an admin of the org `default`."""
    return await give_key(await database.connect())


@pytest.fixture
async def ingest(database: Database, coordinator_address: str) -> AsyncIterator[Ingest]:
    config = IngestConfig(
        database_url=database.url("ingest"),
        coordinator_address=coordinator_address,
        grpc_port=0,
        http_port=0,
        ops_port=0,
    )
    pool = await open_pool(config.database_url, size=5, application_name="perdure-ingest")
    process = Ingest(config, pool)
    await process.start()
    yield process
    await process.stop()


@pytest.fixture
def address(ingest: Ingest) -> str:
    return f"127.0.0.1:{ingest.server.port}"
