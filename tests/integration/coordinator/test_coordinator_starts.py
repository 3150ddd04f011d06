"""StartRun: each item has its own answer, and a start key one run (p7)."""

from __future__ import annotations

import asyncio

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_runtime.rpc.errors import from_status
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

TYPED = """
name: typed
input: {type: object, required: [n], properties: {n: {type: integer}}}
nodes: {a: {task: {handler: h}}}
"""


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def count(rows: asyncpg.Connection) -> int:
    runs: int = await rows.fetchval("SELECT count(*) FROM runs")
    return runs


async def test_each_item_is_answered_for_itself(calls: Calls, rows: asyncpg.Connection) -> None:
    await calls.publish(TYPED)

    good, unknown, version, refused = await calls.start_all(
        [
            calls.item(),
            calls.item("nobody"),
            calls.item("w", version=9),
            calls.item("typed", input=b'{"n": "one"}'),
        ]
    )

    assert (good.created, good.workflow_version, good.HasField("error")) == (True, 1, False)
    for answer in (unknown, version):
        error = from_status(answer.error, grpc.StatusCode.NOT_FOUND)
        assert error.reason is Reason.WORKFLOW_NOT_FOUND
    invalid = from_status(refused.error, grpc.StatusCode.INVALID_ARGUMENT)
    assert isinstance(invalid, InvalidArgument)
    assert [violation.field for violation in invalid.violations] == ["input.n"]
    assert await count(rows) == 1


async def test_f116_a_start_key_is_one_run_and_another_request_is_told_which(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    wish = calls.item(start_key="k", input=b'{"n": 1}')
    (first,) = await calls.start_all([wish])

    again, other = await calls.start_all([wish, calls.item(start_key="k", input=b'{"n": 2}')])

    assert (again.run_id, again.created) == (first.run_id, False)
    error = from_status(other.error, grpc.StatusCode.ALREADY_EXISTS)
    assert error.reason is Reason.RUN_ALREADY_STARTED
    assert error.metadata["run_id"] == first.run_id
    assert await count(rows) == 1


async def test_f119_the_same_key_at_the_same_moment_starts_one_run(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    answers = await asyncio.gather(
        *(calls.start_all([calls.item(start_key="k")] * 3) for _ in range(5))
    )

    results = [result for answer in answers for result in answer]
    assert len({result.run_id for result in results}) == 1
    assert sum(result.created for result in results) == 1
    assert await count(rows) == 1


async def test_p1_a_start_that_the_database_refuses_hinders_none_beside_it(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    before, bad, after = await calls.start_all(
        [calls.item(), calls.item(priority=101), calls.item()]
    )

    assert before.created
    assert after.created
    error = from_status(bad.error, grpc.StatusCode.INVALID_ARGUMENT)
    assert isinstance(error, InvalidArgument)
    assert [violation.field for violation in error.violations] == ["priority"]
    assert await count(rows) == 2


async def test_p12_a_workflow_of_another_org_is_not_there(calls: Calls) -> None:
    (answer,) = await Calls(calls.channel, org="other").start_all(
        [hot.StartRunItem(org="other", workflow="w")]
    )

    error = from_status(answer.error, grpc.StatusCode.NOT_FOUND)
    assert error.reason is Reason.WORKFLOW_NOT_FOUND
