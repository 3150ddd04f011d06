"""A real ingest before a real coordinator, both in this process; the test plays the worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from perdure import Client
from perdure_ingest.app import Ingest
from perdure_ingest.config import IngestConfig
from perdure_store.pool import open_pool
from perdure_testkit.api_keys import give_key
from perdure_testkit.calls import Calls
from perdure_testkit.command_line import Command, command_at
from perdure_testkit.database import Database

SCHEMA = {
    "type": "object",
    "required": ["to"],
    "properties": {
        "to": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "string"}},
        "language": {"type": "string", "default": "en"},
    },
}


@pytest.fixture
async def coordinator_address(serve: Callable[..., Awaitable[tuple[Any, str]]]) -> str:
    """The address of a coordinator that hashes subjects."""
    _, address = await serve(subject_key="k" * 32)
    return address


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
async def client(ingest: Ingest, calls: Calls, api_key: str) -> AsyncIterator[Client]:
    """A client; the job types `mail`, which has a schema, and `note`, which has none, are made."""
    address = f"127.0.0.1:{ingest.server.port}"
    async with Client(address, api_key=api_key, timeout=20.0) as connected:
        await connected.jobs.put_type("mail", handler="mail.send", payload_schema=SCHEMA)
        await connected.jobs.put_type("note", handler="note.take")
        yield connected


@pytest.fixture
async def web(ingest: Ingest, client: Client, api_key: str) -> AsyncIterator[httpx.AsyncClient]:
    """The same door over HTTP."""
    url = f"http://127.0.0.1:{ingest.http.port}"
    presented = {"Authorization": f"Bearer {api_key}"}
    async with httpx.AsyncClient(
        base_url=url, headers=presented, timeout=20.0, verify=False
    ) as connected:
        yield connected


@pytest.fixture
def perdure(client: Client, api_key: str, tmp_path: Path) -> Command:
    """Run `perdure ...` against the same ingest."""
    return command_at(client.address, tmp_path, api_key=api_key)
