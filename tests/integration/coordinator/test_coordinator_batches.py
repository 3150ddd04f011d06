"""Many events in one transaction: nobody waits for another's run, nobody's fault is shared (p1)."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_coordinator import answers
from perdure_runtime.errors import Reason, Unavailable
from perdure_runtime.fail_points import Pause, Raise, arm
from perdure_runtime.lifecycle import Service
from perdure_runtime.rpc.errors import from_call_error
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import wait_until_blocked

Serve = Callable[..., Awaitable[tuple[Service, str]]]

LOCK = "SELECT FROM runs WHERE run_id = ANY ($1::uuid[]) FOR UPDATE"
CHAIN = "name: chain\nnodes: {a: {task: {handler: h}}, b: {needs: [a], task: {handler: h}}}"
TASK = "name: w\nnodes: {a: {task: {handler: h}}}"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch, patient: None) -> Callable[[float], None]:
    """Lets calls answer so soon from now on, as they do in production."""
    return lambda seconds: monkeypatch.setattr(answers, "PATIENCE_SECONDS", seconds)


async def test_p1_a_held_run_delays_nobody_and_its_repeat_finds_it_done(
    calls: Calls, rows: asyncpg.Connection, hurry: Callable[[float], None]
) -> None:
    runs = [await calls.start() for _ in range(9)]
    await calls.acquire(*runs, step=99)  # nothing, but over connections that are open then
    ids = {run: str(uuid.uuid4()) for run in runs}
    request = hot.AcquireLeaseRequest(
        worker="worker-1",
        items=[
            hot.AcquireLeaseItem(org="default", run_id=str(run), step=1, lease_id=ids[run])
            for run in runs
        ],
    )
    hurry(1.0)
    async with rows.transaction():
        await rows.execute(LOCK, runs[4:5])
        statuses = [result.status for result in (await calls.hot.AcquireLease(request)).results]
        assert statuses[4] == hot.ACQUIRE_STATUS_AGAIN
        assert hot.ACQUIRE_STATUS_GRANTED in statuses
        await wait_until_blocked(rows)

    results = (await calls.hot.AcquireLease(request)).results
    while any(result.status == hot.ACQUIRE_STATUS_AGAIN for result in results):
        results = (await calls.hot.AcquireLease(request)).results

    assert {result.status for result in results} == {hot.ACQUIRE_STATUS_GRANTED}
    assert [result.grant.lease.lease_id for result in results] == list(ids.values())
    assert {result.grant.lease.fence for result in results} == {1}


async def test_p1_an_event_that_only_waits_its_turn_is_waited_for(
    calls: Calls, rows: asyncpg.Connection, hurry: Callable[[float], None]
) -> None:
    run = await calls.start()
    await calls.acquire(run, step=99)  # nothing, but over connections that are open then
    hurry(0.1)
    async with rows.transaction():
        await rows.execute("LOCK TABLE outbox IN EXCLUSIVE MODE")
        call = asyncio.create_task(calls.acquire(run))
        await wait_until_blocked(rows)
        answered, _ = await asyncio.wait({call}, timeout=0.3)
        assert not answered

    (result,) = await call
    assert result.status == hot.ACQUIRE_STATUS_GRANTED


async def test_p1_f113_repeats_of_a_held_run_wait_on_one_connection(
    serve: Serve,
    call_at: Callable[..., Calls],
    rows: asyncpg.Connection,
    hurry: Callable[[float], None],
) -> None:
    _, address = await serve(committers=1, spare_connections=4)
    calls = call_at(address)
    await calls.publish(TASK)
    run, leased = await calls.start(), await calls.start()
    lease = (await calls.grant(leased)).lease
    hurry(0.1)
    async with rows.transaction():
        await rows.execute(LOCK, [run])
        for _ in range(6):
            (result,) = await calls.acquire(run)
            assert result.status == hot.ACQUIRE_STATUS_AGAIN
        assert len(await wait_until_blocked(rows)) == 1
        (renewed,) = await calls.renew(lease)
        assert renewed.status == hot.RENEW_STATUS_RENEWED


async def test_p1_f113_runs_that_are_held_leave_connections_to_others(
    serve: Serve,
    call_at: Callable[..., Calls],
    rows: asyncpg.Connection,
    hurry: Callable[[float], None],
) -> None:
    _, address = await serve(committers=1, spare_connections=3)
    calls = call_at(address)
    await calls.publish(TASK)
    runs = [await calls.start() for _ in range(5)]
    hurry(0.1)
    async with rows.transaction():
        await rows.execute(LOCK, runs)
        statuses = {result.status for result in await calls.acquire(*runs)}
        assert statuses == {hot.ACQUIRE_STATUS_AGAIN}
        await wait_until_blocked(rows)
        published = await calls.publish(CHAIN)
        assert published.created


@pytest.mark.breaks_r10("a run's workflow is taken away, so that nothing can be decided for it")
async def test_p1_a_poisonous_event_hinders_none_beside_it(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    runs = [await calls.start() for _ in range(6)]
    leases = [(await calls.grant(run)).lease for run in runs]
    await rows.execute(
        "UPDATE steps SET lease_expires_at = clock_timestamp() - interval '1 s' WHERE run_id <> $1",
        runs[4],
    )
    await rows.execute("UPDATE runs SET workflow_id = 0 WHERE run_id = $1", runs[1])

    statuses = await calls.expire(*leases)

    expected = [hot.ITEM_STATUS_APPLIED] * 6
    expected[1] = hot.ITEM_STATUS_AGAIN  # poison
    expected[4] = hot.ITEM_STATUS_STALE  # GuardFailed: it lives
    assert statuses == expected


@pytest.mark.breaks_r10("a run's workflow is taken away, so that nothing can be decided for it")
async def test_p1_one_callers_poison_is_not_told_to_another(
    serve: Serve, call_at: Callable[..., Calls], rows: asyncpg.Connection
) -> None:
    _, address = await serve(committers=1, remembered_runs=0)
    calls = call_at(address)
    await calls.publish(TASK)
    runs = [await calls.start() for _ in range(6)]
    await rows.execute("UPDATE runs SET workflow_id = 0 WHERE run_id = $1", runs[2])

    outcomes = await asyncio.gather(*(calls.acquire(run) for run in runs), return_exceptions=True)

    refused = outcomes.pop(2)
    assert isinstance(refused, grpc.aio.AioRpcError)
    assert refused.code() is grpc.StatusCode.INTERNAL
    granted = [one[0].status for one in outcomes if not isinstance(one, BaseException)]
    assert granted == [hot.ACQUIRE_STATUS_GRANTED] * 5


async def test_p1_a_committer_that_is_held_up_delays_no_plain_event(
    serve: Serve, call_at: Callable[..., Calls]
) -> None:
    _, address = await serve(committers=1)
    calls = call_at(address)
    await calls.publish(TASK)
    slow, plain = await calls.start(), await calls.start()
    cancel = hot.CancelRunRequest(items=[hot.CancelRunItem(org="default", run_id=str(slow))])
    with arm("store.commit_events", "before", pause := Pause()):
        cancelling = asyncio.ensure_future(calls.hot.CancelRun(cancel))
        await pause.reached.wait()
        (granted,) = await calls.acquire(plain)
        assert granted.status == hot.ACQUIRE_STATUS_GRANTED
        pause.release.set()
        await cancelling


async def test_events_of_one_run_in_one_batch_are_folded_in_order(calls: Calls) -> None:
    run = await calls.start()

    results = await calls.acquire(run, run, run)

    assert [result.status for result in results] == [
        hot.ACQUIRE_STATUS_GRANTED,
        hot.ACQUIRE_STATUS_GONE,
        hot.ACQUIRE_STATUS_GONE,
    ]


async def test_f048_when_nothing_can_be_applied_the_caller_is_told_to_wait(calls: Calls) -> None:
    run = await calls.start()
    with (
        arm("store.write_hand_overs", "before", Raise()),
        pytest.raises(grpc.aio.AioRpcError) as caught,
    ):
        await calls.acquire(run)

    assert isinstance(from_call_error(caught.value), Unavailable)
    await calls.grant(run)


async def test_r14_f115_two_coordinators_on_the_same_runs_do_not_deadlock(
    serve: Serve, call_at: Callable[..., Calls], rows: asyncpg.Connection
) -> None:
    addresses = [(await serve(committers=2))[1] for _ in range(2)]
    callers = [call_at(address) for address in addresses * 2]
    await callers[0].publish(CHAIN)
    items = [callers[0].item("chain") for _ in range(30)]
    runs = [UUID(result.run_id) for result in await callers[0].start_all(items)]

    async def work(calls: Calls, seed: int) -> None:
        shuffled = random.Random(seed).sample(runs, len(runs))
        while await rows_left():
            for step in (1, 2):
                results = await calls.acquire(*shuffled, step=step)
                leases = [one.grant.lease for one in results if one.HasField("grant")]
                await calls.report(
                    *(hot.ReportResultItem(lease=lease, output=b"1") for lease in leases)
                )

    turn = asyncio.Lock()

    async def rows_left() -> bool:
        async with turn:
            return bool(
                await rows.fetchval("SELECT EXISTS (SELECT FROM runs WHERE status = 'running')")
            )

    await asyncio.gather(*(work(calls, seed) for seed, calls in enumerate(callers)))

    ended = await rows.fetch("SELECT status::text, count(*) FROM runs GROUP BY 1")
    assert [tuple(row) for row in ended] == [("completed", 30)]
    assert await rows.fetchval("SELECT max(fence) FROM steps") == 1
    deadlocks = await rows.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert deadlocks == 0


async def test_a_drain_answers_what_was_taken_and_takes_no_more(
    serve: Serve, call_at: Callable[..., Calls], rows: asyncpg.Connection
) -> None:
    service, address = await serve()
    calls = call_at(address)
    await calls.publish(TASK)
    run = await calls.start()
    async with rows.transaction():
        await rows.execute(LOCK, [run])
        taken = asyncio.create_task(calls.acquire(run))
        await wait_until_blocked(rows)
        await service.drain()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls.renew()
        stopping = asyncio.create_task(service.stop())

    (result,) = await taken
    await stopping

    assert from_call_error(caught.value).reason is Reason.DRAINING
    assert result.status == hot.ACQUIRE_STATUS_GRANTED
    assert await rows.fetchval("SELECT status::text FROM steps") == "running"
