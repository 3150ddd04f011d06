"""Publishing and the lanes over the wire (R11)."""

from __future__ import annotations

import asyncio

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1.control_service_pb2 import ListLanesRequest
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_runtime.rpc.errors import from_call_error
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import wait_until_blocked

GREET = "name: greet\nnodes: {a: {task: {handler: h}}}"
SAME = "# a comment\nnodes:\n  a: {task: {handler: h}}\nname: greet\n"
OTHER = "name: greet\nnodes: {a: {task: {handler: other}}}"
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('perdure.workflow/default/greet', 0))"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def test_r11_the_same_content_is_one_version(calls: Calls, rows: asyncpg.Connection) -> None:
    first, same, other = [await calls.publish(text) for text in (GREET, SAME, OTHER)]
    back = await calls.publish(GREET)

    versions = [(one.version, one.created) for one in (first, same, other, back)]
    assert versions == [(1, True), (1, False), (2, True), (3, True)]
    assert same.digest == first.digest == back.digest
    assert same.published_at_us == first.published_at_us > 0
    stored = await rows.fetchval("SELECT document FROM workflows WHERE name = 'greet' LIMIT 1")
    assert stored == GREET.encode()


async def test_r11_the_same_content_at_the_same_moment_is_one_version(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    async with rows.transaction():
        await rows.execute(LOCK)
        rivals = [asyncio.create_task(calls.publish(text)) for text in (GREET, SAME, GREET)]
        await wait_until_blocked(rows, count=3)
    answers = await asyncio.gather(*rivals)

    assert {one.version for one in answers} == {1}
    assert sum(one.created for one in answers) == 1


async def test_orgs_number_their_versions_apart(calls: Calls, rows: asyncpg.Connection) -> None:
    await rows.execute("INSERT INTO orgs (org) VALUES ('other')")
    await calls.publish(GREET)
    await calls.publish(OTHER)

    theirs = await Calls(calls.channel, org="other").publish(GREET)

    assert (theirs.version, theirs.created) == (1, True)


@pytest.mark.parametrize(
    ("org", "document", "reason"),
    [
        ("default", "name: bad\nnodes: {a: {needs: [b], task: {handler: h}}}", "DEFINITION"),
        ("default", "name: bad\nnodes: {a: {lane: none, task: {handler: h}}}", "DEFINITION"),
        ("nobody", GREET, "FIELD"),
    ],
)
async def test_what_cannot_be_published_is_refused_and_not_stored(
    calls: Calls, rows: asyncpg.Connection, org: str, document: str, reason: str
) -> None:
    before = await rows.fetchval("SELECT count(*) FROM workflows")

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await Calls(calls.channel, org=org).publish(document)

    error = from_call_error(caught.value)
    assert isinstance(error, InvalidArgument)
    assert error.reason in {Reason.DEFINITION_INVALID, Reason.FIELD_INVALID}
    assert error.reason.startswith(reason)
    assert error.violations
    assert await rows.fetchval("SELECT count(*) FROM workflows") == before


async def test_lanes_are_told_as_they_are_now(calls: Calls, rows: asyncpg.Connection) -> None:
    await rows.execute("UPDATE lanes SET shards = 3, lease_ms = 45000 WHERE lane = 'slow'")
    await rows.execute("INSERT INTO lanes (lane, retry_max) VALUES ('gpu', 0)")

    answer = await calls.control.ListLanes(ListLanesRequest(), timeout=10)

    told = {one.lane: (one.shards, one.stream_ceiling, one.lease_ms) for one in answer.lanes}
    assert told == {"io": (1, 1000, 30_000), "slow": (3, 1000, 45_000), "gpu": (1, 1000, 30_000)}
