"""What is malformed is refused as a whole by the field's name, before anything is stored (F056)."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_runtime.rpc.errors import from_call_error, from_status
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

NOWHERE = uuid.UUID(int=1)
REVISIONS = "SELECT sum(revision) FROM runs"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


def broken(lease: StepLease, **fields: Any) -> StepLease:
    copy = StepLease()
    copy.CopyFrom(lease)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def item(lease: StepLease, **fields: Any) -> hot.ReportResultItem:
    return hot.ReportResultItem(lease=lease, **fields)


BAD = [
    ("items.lease_id", lambda c, good: c.acquire(NOWHERE, lease_id="x")),
    ("leases.run_id", lambda c, good: c.renew(good, broken(good, run_id=""))),
    ("leases.lease_id", lambda c, good: c.renew(good, broken(good, lease_id=""))),
    ("leases.run_id", lambda c, good: c.release(good, broken(good, run_id="1"))),
    ("leases.lease_id", lambda c, good: c.release(good, broken(good, lease_id="1"))),
    ("items.lease.run_id", lambda c, good: c.report(item(good), item(broken(good, run_id="")))),
    ("items.lease.lease_id", lambda c, good: c.report(item(good), item(broken(good, lease_id="")))),
    ("items.next_lease_id", lambda c, good: c.report(
        item(good), item(good, next_lease_id="x"), queues=["io:default"]
    )),
    ("leases.lease.run_id", lambda c, good: c.expire(good, broken(good, run_id=""))),
    ("leases.lease.lease_id", lambda c, good: c.expire(good, broken(good, lease_id=""))),
    ("timers.run_id", lambda c, good: c.fire(hot.TimerRef(timer_id=1, org="default"))),
]  # fmt: skip


@pytest.mark.parametrize(("field", "ask"), BAD)
async def test_f056_a_bad_id_refuses_the_call_and_nothing_is_stored(
    calls: Calls,
    rows: asyncpg.Connection,
    field: str,
    ask: Callable[[Calls, StepLease], Awaitable[Any]],
) -> None:
    lease = (await calls.grant(await calls.start())).lease
    await rows.execute("UPDATE steps SET lease_expires_at = clock_timestamp() + interval '1 h'")
    before = await rows.fetchval(REVISIONS)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(calls, lease)

    error = from_call_error(caught.value)
    assert isinstance(error, InvalidArgument)
    assert error.reason is Reason.FIELD_INVALID
    assert [violation.field for violation in error.violations] == [field]
    assert await rows.fetchval(REVISIONS) == before
    left = await rows.fetchval("SELECT lease_expires_at > now() + interval '59 min' FROM steps")
    assert left


@pytest.mark.parametrize("worker", ["", "w" * 201, "w\0"])
async def test_a_worker_must_have_a_name(calls: Calls, worker: str) -> None:
    run = await calls.start()

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await Calls(calls.channel, worker=worker).acquire(run)

    error = from_call_error(caught.value)
    assert isinstance(error, InvalidArgument)
    assert [violation.field for violation in error.violations] == ["worker"]
    await calls.grant(run)


async def test_f056_a_cancel_of_a_bad_id_is_refused_alone(calls: Calls) -> None:
    run = await calls.start()
    request = hot.CancelRunRequest(
        items=[
            hot.CancelRunItem(org="default", run_id=""),
            hot.CancelRunItem(org="default", run_id=str(run)),
        ]
    )

    bad, good = (await calls.hot.CancelRun(request, timeout=10)).results

    error = from_status(bad.error, grpc.StatusCode.INVALID_ARGUMENT)
    assert isinstance(error, InvalidArgument)
    assert [violation.field for violation in error.violations] == ["run_id"]
    assert good.changed


async def test_commands_are_once_and_a_closed_or_strange_run_is_named(calls: Calls) -> None:
    run = await calls.start()
    for command in (hot.RUN_COMMAND_PAUSE, hot.RUN_COMMAND_RESUME, hot.RUN_COMMAND_TERMINATE):
        first, missing = await calls.command(command, run, NOWHERE)
        (again,) = await calls.command(command, run)
        (foreign,) = await Calls(calls.channel, org="other").command(command, run)
        assert (first.changed, again.changed) == (True, False)
        assert "there is no run" in missing.error.message
        assert "there is no run" in foreign.error.message
    (closed,) = await calls.command(hot.RUN_COMMAND_PAUSE, run)
    assert closed.error.message == "the run is cancelled already"
    (unsaid,) = await calls.command(hot.RUN_COMMAND_UNSPECIFIED, run)
    assert unsaid.HasField("error")


async def test_cancelling_is_once_and_a_closed_or_strange_run_is_named(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    run, done = await calls.start(), await calls.start()
    await calls.succeed((await calls.grant(done)).lease)

    first, ended, missing = await calls.cancel(run, done, NOWHERE)
    (again,) = await calls.cancel(run)
    (foreign,) = await Calls(calls.channel, org="other").cancel(done)

    assert [first.changed, again.changed] == [True, False]
    closed = from_status(ended.error, grpc.StatusCode.FAILED_PRECONDITION)
    assert (closed.reason, closed.metadata["status"]) == (Reason.RUN_CLOSED, "completed")
    for answer in (missing, foreign):
        error = from_status(answer.error, grpc.StatusCode.NOT_FOUND)
        assert error.reason is Reason.RUN_NOT_FOUND


async def test_a_run_is_ended_for_its_age_once(calls: Calls) -> None:
    await calls.publish("name: aged\nlimits: {age: 0}\nnodes: {a: {wait: 1h}}")
    run, ageless = await calls.start("aged"), await calls.start()

    assert await calls.expire_runs(run, ageless, NOWHERE) == [
        hot.ITEM_STATUS_APPLIED,
        hot.ITEM_STATUS_STALE,
        hot.ITEM_STATUS_STALE,
    ]
    assert await calls.expire_runs(run) == [hot.ITEM_STATUS_STALE]


async def test_a_call_without_items_is_answered_without_items(calls: Calls) -> None:
    assert await calls.acquire() == []
    assert await calls.renew() == []
    assert await calls.report() == []
    assert await calls.fire() == []
    assert await calls.expire() == []
    assert await calls.start_all([]) == []
