"""Faults of other engines that a coordinator could make, asked of a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_coordinator.wakeups import RUNS
from perdure_runtime import fail_points
from perdure_runtime.fail_points import Pause, Raise
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import wait_until_blocked

WAIT = "name: pause\nnodes: {a: {wait: 1h}}"
GREET = "name: greet\nnodes: {a: {task: {handler: h}}, b: {needs: [a], transform: %s}}"
BOTH = "SELECT (SELECT count(*) FROM steps), (SELECT count(*) FROM timers WHERE kind = 'wait')"
NOWHERE = "postgresql://perdure_coordinator@127.0.0.1:1/nowhere"


async def test_f018_a_wait_and_its_timer_are_stored_together_or_not_at_all(
    database: Database, calls: Calls
) -> None:
    await calls.publish(WAIT)
    admin = await database.connect()
    with (
        fail_points.arm("store.commit_starts", "before", Raise()),
        pytest.raises(grpc.aio.AioRpcError),
    ):
        await calls.start("pause", start_key="k")
    assert await _stored(admin) == (0, 0)
    with (
        fail_points.arm("store.commit_starts", "after", Raise()),
        pytest.raises(grpc.aio.AioRpcError),
    ):
        await calls.start("pause", start_key="k")
    assert await _stored(admin) == (1, 1)
    await calls.start("pause", start_key="k")
    assert await _stored(admin) == (1, 1)


async def _stored(admin: asyncpg.Connection) -> tuple[int, int]:
    (row,) = await admin.fetch(BOTH)
    return row[0], row[1]


async def test_f034_a_cancel_reaches_running_work_without_any_notification(
    serve: Callable[..., Awaitable[Any]], call_at: Callable[..., Calls]
) -> None:
    _, address = await serve(database_direct_url=NOWHERE)
    calls = call_at(address)
    await calls.publish(GREET % "1")
    run = await calls.start("greet")
    grant = await calls.grant(run)
    (before,) = await calls.renew(grant.lease)
    await calls.cancel(run)
    (after,) = await calls.renew(grant.lease)
    assert [before.cancel_requested, after.cancel_requested] == [False, True]


async def test_f073_f074_what_commits_during_a_notification_shares_the_next(
    database: Database, calls: Calls
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listening = await database.connect()
    await listening.add_listener(RUNS, lambda *notified: heard.put_nowait(notified[2]))
    pause = Pause()
    with fail_points.arm("coordinator.notify", "before", pause):
        for _ in range(20):
            await calls.start()
        await pause.reached.wait()
        pause.release.set()
        assert [await heard.get(), await heard.get()] == [RUNS, RUNS]
    await calls.start()
    assert await heard.get() == RUNS
    assert heard.empty()


async def test_f073_f074_no_trigger_notifies(database: Database) -> None:
    admin = await database.connect()
    notifying = await admin.fetch(
        "SELECT p.proname FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid"
        " WHERE NOT t.tgisinternal AND p.prosrc ILIKE '%notify%'"
    )
    assert notifying == []


async def test_f081_an_old_hint_serves_a_later_try_and_a_second_one_is_gone(
    database: Database, calls: Calls
) -> None:
    run = await calls.start()
    grant = await calls.grant(run)
    await calls.fail(grant.lease)
    (early,) = await calls.acquire(run)
    admin = await database.connect()
    timer = await admin.fetchval("UPDATE timers SET due_at = now() RETURNING timer_id")
    await calls.fire(hot.TimerRef(timer_id=timer, run_id=str(run), org=calls.org))
    (later,) = await calls.acquire(run)
    (second,) = await calls.acquire(run)
    assert [early.status, later.status, second.status] == [
        hot.ACQUIRE_STATUS_GONE,
        hot.ACQUIRE_STATUS_GRANTED,
        hot.ACQUIRE_STATUS_GONE,
    ]
    assert later.grant.attempt == 2


async def test_f097_a_start_begins_100_nodes_of_a_huge_fork_and_leaves_the_rest_for_later(
    database: Database, calls: Calls
) -> None:
    nodes = "".join(f"\n  n{number}: {{task: {{handler: h}}}}" for number in range(250))
    await calls.publish(f"name: fork\nnodes:{nodes}")
    run = await calls.start("fork")
    admin = await database.connect()
    begun = []
    while timer := await admin.fetchval("SELECT timer_id FROM timers WHERE kind = 'advance'"):
        begun.append(await admin.fetchval("SELECT count(*) FROM steps"))
        await calls.fire(hot.TimerRef(timer_id=timer, run_id=str(run), org=calls.org))
    assert [*begun, await admin.fetchval("SELECT count(*) FROM steps")] == [100, 200, 250]


@pytest.mark.usefixtures("patient")
async def test_f113_runs_that_are_held_elsewhere_share_one_connection_and_all_go_on(
    database: Database, serve: Callable[..., Awaitable[Any]], call_at: Callable[..., Calls]
) -> None:
    _, address = await serve(committers=1, spare_connections=1)
    calls = call_at(address)
    await calls.publish(GREET % "1")
    runs = [await calls.start("greet") for _ in range(4)]
    rival = await database.connect()
    async with rival.transaction():
        await rival.execute("SELECT FROM runs WHERE run_id = ANY ($1) FOR UPDATE", runs[:3])
        held = asyncio.create_task(calls.acquire(*runs[:3]))
        await wait_until_blocked(rival)
        (free,) = await calls.acquire(runs[3])
        assert free.status == hot.ACQUIRE_STATUS_GRANTED
    assert {one.status for one in await held} == {hot.ACQUIRE_STATUS_GRANTED}


async def test_r11_f127_a_run_stays_on_its_version_over_a_publish_and_a_restart(
    database: Database, serve: Callable[..., Awaitable[Any]], call_at: Callable[..., Calls]
) -> None:
    _, address = await serve()
    calls = call_at(address)
    await calls.publish(GREET % "1")
    run = await calls.start("greet")
    await calls.publish(GREET % "2")
    grant = await calls.grant(run)
    _, another = await serve()
    await call_at(another).succeed(grant.lease)
    admin = await database.connect()
    output = await admin.fetchval(
        "SELECT output FROM runs WHERE run_id = $1 AND workflow_version = 1", run
    )
    assert output == b'{"b":1}'
