"""Hostile requests to every public method: each is refused by the table, and nothing is stored."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from perdure import Client
from perdure_ingest.http.contracts import public_files
from perdure_testkit.database import Database
from perdure_testkit.hostile import NUL, Attack
from perdure_testkit.refusals import Door

METHODS = [
    method
    for file in public_files()
    for service in file.services_by_name.values()
    for method in service.methods
]
READS = re.compile(r"Get|List|Watch|Check|Validate|Diagnose")

TABLES = """
SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""


@pytest.fixture
async def door(address: str, api_key: str) -> AsyncIterator[Door]:
    async with grpc.aio.insecure_channel(address) as channel:
        yield Door(channel, api_key)


@pytest.fixture
async def unchanged(database: Database, address: str, api_key: str) -> AsyncIterator[None]:
    """See that the test leaves no row more, and that runs are started after it as before."""
    before = await rows(database)
    yield
    assert await rows(database) == before
    async with Client(address, api_key=api_key, timeout=20.0) as client:
        await client.publish_workflow(json.dumps({"name": "w", "nodes": {"a": {"transform": 1}}}))
        started = await client.start_run("w")
        assert (await client.wait_run(started.run_id, 20.0)).output == b'{"a":1}'


def may_pass(method: MethodDescriptor, attack: Attack) -> bool:
    """A read may take numbers as it likes; nothing takes a NUL or a text that is too long."""
    is_harmless = NUL not in attack.how and "long" not in attack.how
    return bool(READS.match(method.name)) and is_harmless


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("filled", [False, True], ids=["alone", "beside_names"])
async def test_f102_a_hostile_field_is_refused_by_the_table_and_stored_nowhere(
    door: Door, filled: bool
) -> None:
    found = []
    for method in METHODS:
        found += await door.attacked(method, may_pass, filled=filled)
    assert found == [], "\n".join(found)


@pytest.mark.usefixtures("unchanged")
async def test_everything_that_is_wrong_with_a_request_is_told_at_once(door: Door) -> None:
    found = [problem for method in METHODS if (problem := await door.spoilt(method))]
    assert found == [], "\n".join(found)


@pytest.mark.usefixtures("unchanged")
async def test_bytes_that_are_no_message_are_refused_by_every_method(door: Door) -> None:
    found = []
    for method in METHODS:
        found += await door.malformed(method)
    assert found == [], "\n".join(found)


@pytest.mark.usefixtures("unchanged")
async def test_f091_a_message_of_ten_megabytes_is_not_read(door: Door) -> None:
    for method in {one.containing_service.full_name: one for one in METHODS}.values():
        assert not await door.reads_ten_megabytes(method)


async def rows(database: Database) -> dict[str, int]:
    """Count the rows of every table."""
    connection = await database.connect()
    names = [row["relname"] for row in await connection.fetch(TABLES)]
    return {name: await connection.fetchval(f'SELECT count(*) FROM "{name}"') for name in names}
