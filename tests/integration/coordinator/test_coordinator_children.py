"""The coordinator starts the children that runs ask for, and makes good what failed (p5)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_runtime.fail_points import Raise, arm
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

CHILD = "name: child\ninput: {required: [n]}\nnodes: {a: {task: {handler: h}}}"
PARENT = "name: parent\nnodes: {call: {run: {workflow: child, input: '${input}'}}}"
DUE = "SELECT timer_id, run_id, org FROM timers WHERE due_at <= clock_timestamp() ORDER BY timer_id"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def parent(calls: Calls) -> UUID:
    """A run that asks for its child."""
    await calls.publish(CHILD)
    await calls.publish(PARENT)
    return await calls.start("parent", input=b'{"n": 1}')


async def fire(calls: Calls, rows: asyncpg.Connection) -> Sequence[int]:
    """Deliver what is due once; return the statuses."""
    due = await rows.fetch(DUE)
    refs = [
        hot.TimerRef(timer_id=row["timer_id"], run_id=str(row["run_id"]), org=row["org"])
        for row in due
    ]
    return [result.status for result in await calls.fire(*refs)]


async def children(rows: asyncpg.Connection, parent: UUID) -> list[str]:
    """Return how the runs stand that were started for the parent."""
    found = await rows.fetch("SELECT status::text FROM runs WHERE parent_run = $1", parent)
    return [row["status"] for row in found]


async def test_a_child_is_started_when_its_timer_is_delivered(
    calls: Calls, rows: asyncpg.Connection, parent: UUID
) -> None:
    assert await children(rows, parent) == []
    assert await fire(calls, rows) == [hot.ITEM_STATUS_APPLIED]
    assert await children(rows, parent) == ["running"]
    assert await fire(calls, rows) == []


@pytest.mark.parametrize("point", ["store.commit_starts", "coordinator.tell_of_child"])
@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_start_that_broke_anywhere_leaves_its_timer_and_makes_one_child_later_p5(
    calls: Calls, rows: asyncpg.Connection, parent: UUID, point: str, side: str
) -> None:
    with arm(point, side, Raise()), pytest.raises(grpc.aio.AioRpcError):
        await fire(calls, rows)
    while await fire(calls, rows):
        pass
    assert await children(rows, parent) == ["running"]
    assert await rows.fetchval("SELECT status FROM children WHERE run_id = $1", parent) == "running"


async def test_a_start_that_is_refused_for_good_fails_the_node_and_leaves_no_timer(
    calls: Calls, rows: asyncpg.Connection, parent: UUID
) -> None:
    refused = await calls.start("parent", input=b"{}")
    await fire(calls, rows)
    ended = await rows.fetchrow("SELECT status::text, error FROM runs WHERE run_id = $1", refused)
    assert ended is not None
    assert ended["status"] == "failed"
    assert b"FIELD_INVALID" in ended["error"]
    assert await children(rows, refused) == []
    assert await fire(calls, rows) == []


async def test_a_parent_that_was_cancelled_first_has_the_key_of_its_child_taken(
    calls: Calls, rows: asyncpg.Connection, parent: UUID
) -> None:
    await calls.cancel(parent)
    while await fire(calls, rows):
        pass
    assert await children(rows, parent) == []
    key = await rows.fetchrow("SELECT run_id, expires_at FROM start_keys WHERE start_key <> ''")
    assert key is not None
    assert key["run_id"] == UUID(int=0)
    assert key["expires_at"] is not None
