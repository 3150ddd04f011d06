"""Two appliers and one run, or many: what each interleaving leads to, made certain by locks."""

import asyncio
import random
from dataclasses import replace
from uuid import UUID

import asyncpg
import pytest
from perdure_machine.events import Acquire, CancelRun, Event
from perdure_machine.replies import Applied, Gone, Granted, Stale
from perdure_runtime.fail_points import FailPointHit, Pause, Raise, arm
from perdure_store.apply.batch import Answers, OrgEvent, RunEvents, Skipped
from perdure_store.apply.write import GuardFailed
from perdure_store.leases import HeldLease, Renewal, renew_leases
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver, expiry, lease_of, new_lease, success
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

COMMIT = "store.commit_events"
TASK = {"a": {"task": {"handler": "x"}}}
JOIN = {
    "a": {"task": {"handler": "x"}},
    "b": {"task": {"handler": "x"}},
    "j": {"task": {"handler": "x"}, "needs": ["a", "b"]},
}
LOCK_RUN = "SELECT FROM runs WHERE run_id = $1 FOR UPDATE"


def events(run: UUID, *these: Event) -> RunEvents:
    return RunEvents(run, tuple(OrgEvent(ORG, event) for event in these))


async def apply(
    port: PostgresPort, connection: asyncpg.Connection, *batch: RunEvents, wait: bool = True
) -> list[Answers | Skipped]:
    return await port.applier.apply(connection, batch, wait=wait)


async def test_r1_one_statement_that_locks_and_reads_sees_the_new_run_with_the_old_steps(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """The race on this server, so that the tests below show a cure of something that exists."""
    await driver.publish(JOIN)
    run = await driver.start()
    await driver.acquire(run, "a")
    holder, rival = await database.connect(), await database.connect()
    ending = holder.transaction()
    await ending.start()
    await holder.execute("UPDATE runs SET revision = 99 WHERE run_id = $1", run)
    await holder.execute("UPDATE steps SET losses = 99 WHERE run_id = $1 AND node = 'a'", run)
    reading = asyncio.create_task(
        rival.fetchrow(
            """
            WITH locked AS MATERIALIZED (
                SELECT run_id, revision FROM runs WHERE run_id = $1 FOR UPDATE
            )
            SELECT locked.revision, steps.losses FROM locked JOIN steps USING (run_id)
             WHERE steps.node = 'a'
            """,
            run,
        )
    )
    await wait_until_blocked(holder)
    await ending.commit()
    row = await reading
    assert row is not None
    assert (row["revision"], row["losses"]) == (99, 0)


async def test_r1_f059_the_join_starts_once_when_both_branches_end_at_the_same_moment(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(JOIN)
    run = await driver.start()
    reports = [success(await driver.acquire(run, node)) for node in ("a", "b")]
    first, second = [await database.connect("coordinator") for _ in range(2)]
    with arm(COMMIT, "before", pause := Pause()):
        earlier = asyncio.create_task(apply(port, first, events(run, reports[0])))
        await pause.reached.wait()
        later = asyncio.create_task(apply(port, second, events(run, reports[1])))
        await wait_until_blocked(first)
        pause.release.set()
        assert await earlier == [(Applied(),)]
        assert await later == [(Applied(),)]
    assert await driver.statuses(run) == {"a": "completed", "b": "completed", "j": "queued"}
    assert list(await port.queued()) == [(run, 3)]


async def test_r1_both_branches_wait_for_the_lock_and_the_join_starts_once(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(JOIN)
    run = await driver.start()
    reports = [success(await driver.acquire(run, node)) for node in ("a", "b")]
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_RUN, run)
        both = [
            asyncio.create_task(
                apply(port, await database.connect("coordinator"), events(run, report))
            )
            for report in reports
        ]
        await wait_until_blocked(holder, count=2)
    assert [await one for one in both] == [[(Applied(),)]] * 2
    assert list(await port.queued()) == [(run, 3)]


async def test_p1_a_run_that_is_held_is_skipped_and_hinders_no_other(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(TASK)
    held, free = await driver.start(), await driver.start()
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_RUN, held)
        answers = await apply(
            port,
            port.coordinator,
            events(held, CancelRun()),
            events(free, Acquire(1, new_lease(), "w")),
            wait=False,
        )
    assert isinstance(answers[0], Skipped)
    assert isinstance(answers[1], tuple)
    assert isinstance(answers[1][0], Granted)
    assert (await port.run(held)).revision == 1


async def test_f115_shuffled_batches_of_two_appliers_never_deadlock(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish({f"t{i}": {"task": {"handler": "x"}} for i in range(24)})
    runs = [await driver.start() for _ in range(8)]

    async def take(steps: range) -> None:
        connection = await database.connect("coordinator")
        for step in steps:
            shuffled = random.Random(step).sample(runs, len(runs))
            batch = [events(run, Acquire(step, new_lease(), "w")) for run in shuffled]
            await apply(port, connection, *batch)

    await asyncio.gather(take(range(1, 13)), take(range(13, 25)))
    assert list(await port.queued()) == []


async def test_r14_closing_runs_locks_their_start_keys_in_key_order(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """As starts do; else a start that claims both keys and this batch wait for each other."""
    await driver.publish(TASK)
    runs = [await driver.start(start_key=key) for key in ("k2", "k1")]
    holder = await database.connect("coordinator")
    lock = "SELECT FROM start_keys WHERE start_key = $1 FOR UPDATE"
    async with holder.transaction():
        await holder.execute(lock, "k1")
        closing = asyncio.create_task(
            apply(port, port.coordinator, *(events(run, CancelRun()) for run in runs))
        )
        await wait_until_blocked(holder)
        await holder.execute(f"{lock} NOWAIT", "k2")
    await closing
    await driver.settle()


@pytest.mark.parametrize("side", ["before", "after"])
async def test_p1_r2_a_sender_that_lost_its_answer_asks_again_and_gets_the_same(
    driver: Driver, port: PostgresPort, side: str
) -> None:
    port.remember(0)
    await driver.publish(TASK)
    run = await driver.start()
    report = success(await driver.acquire(run, "a"), b"1")
    port.committed.clear()
    with arm(COMMIT, side, Raise()), pytest.raises(FailPointHit):
        await apply(port, port.coordinator, events(run, report))
    expected = "running" if side == "before" else "completed"
    assert await driver.statuses(run) == {"a": expected}
    assert port.committed == []
    assert await apply(port, port.coordinator, events(run, report)) == [(Applied(),)]
    assert (await port.run(run)).revision == 3
    assert len(port.committed) == (1 if side == "before" else 0)


async def test_r6_a_lease_that_is_renewed_while_it_is_taken_away_stays(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await port.advance(11)
    (candidate,) = await port.expired()
    before = await port.run(run)
    renewing = await database.connect("coordinator")
    async with renewing.transaction():
        await renewing.execute(
            "UPDATE steps SET lease_expires_at = clock_timestamp() + interval '30 s'"
            " WHERE run_id = $1",
            run,
        )
        expiring = asyncio.create_task(
            apply(port, port.coordinator, events(run, expiry(candidate)))
        )
        await wait_until_blocked(renewing)
    with pytest.raises(GuardFailed):
        await expiring
    assert await port.run(run) == before
    assert await driver.succeed(granted) == Applied()


async def test_r6_a_renewal_that_meets_the_taking_away_is_told_again_and_then_lost(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await port.advance(11)
    (candidate,) = await port.expired()
    lease = lease_of(granted)
    held = HeldLease(ORG, run, lease.step, lease.fence, lease.lease_id)
    renewing = await database.connect("coordinator")
    with arm(COMMIT, "before", pause := Pause()):
        expiring = asyncio.create_task(
            apply(port, port.coordinator, events(run, expiry(candidate)))
        )
        await pause.reached.wait()
        (during,) = await renew_leases(renewing, [held])
        pause.release.set()
        assert await expiring == [(Applied(),)]
    (after,) = await renew_leases(renewing, [held])
    assert (during.renewal, after.renewal) == (Renewal.AGAIN, Renewal.LOST)
    assert await driver.succeed(granted) == Stale()


async def test_r6_why_a_lease_ended_is_checked_again_by_the_write(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}, "timeout": "1h"}})
    run = await driver.start()
    await driver.acquire(run, "a")
    await port.advance(11)
    (candidate,) = await port.expired()
    assert not candidate.timed_out
    with pytest.raises(GuardFailed):
        await apply(port, port.coordinator, events(run, expiry(replace(candidate, timed_out=True))))
    assert await driver.expire_due() == [Applied()]
    assert (await driver.step(run, "a")).losses == 1


async def test_r1_a_failed_guard_leaves_nothing_of_its_batch(
    driver: Driver, port: PostgresPort
) -> None:
    port.remember(0)
    await driver.publish(TASK)
    run, other = await driver.start(), await driver.start()
    await driver.acquire(run, "a")
    await port.advance(11)
    (candidate,) = await port.expired()
    await port.admin.execute(
        "UPDATE steps SET lease_expires_at = clock_timestamp() + interval '1 h' WHERE run_id = $1",
        run,
    )
    port.committed.clear()
    with pytest.raises(GuardFailed):
        await apply(
            port,
            port.coordinator,
            events(other, Acquire(1, new_lease(), "w")),
            events(run, expiry(candidate)),
        )
    assert await driver.statuses(other) == {"a": "queued"}
    assert port.committed == []


async def test_a_report_and_a_cancel_at_the_same_moment_leave_a_closed_run_with_its_result(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish({**TASK, "b": {"task": {"handler": "x"}, "needs": ["a"]}})
    run = await driver.start()
    report = success(await driver.acquire(run, "a"), b"1")
    rival = await database.connect("coordinator")
    with arm(COMMIT, "before", pause := Pause()):
        cancelling = asyncio.create_task(apply(port, port.coordinator, events(run, CancelRun())))
        await pause.reached.wait()
        reporting = asyncio.create_task(apply(port, rival, events(run, report)))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        await cancelling
        assert await reporting == [(Applied(),)]
    await driver.settle()
    assert await driver.statuses(run) == {"a": "completed"}
    assert str((await port.run(run)).status) == "cancelled"


async def test_f052_two_workers_take_one_step_at_the_same_moment(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_RUN, run)
        takers = [
            asyncio.create_task(
                apply(
                    port,
                    await database.connect("coordinator"),
                    events(run, Acquire(1, new_lease(), worker)),
                )
            )
            for worker in ("one", "two")
        ]
        await wait_until_blocked(holder, count=2)
    outcomes = [answers for taker in takers for answers in await taker]
    kinds = [type(answers[0]) for answers in outcomes if isinstance(answers, tuple)]
    assert sorted(kinds, key=str) == sorted([Gone, Granted], key=str)


async def test_r7_a_lease_counts_from_the_write_and_not_from_before_the_wait_for_the_lock(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_RUN, run)
        taking = asyncio.create_task(
            apply(port, port.coordinator, events(run, Acquire(1, new_lease(), "w")))
        )
        await wait_until_blocked(holder)
        freed_at = await holder.fetchval("SELECT clock_timestamp()")
    await taking
    expiry_at = await port.admin.fetchval("SELECT lease_expires_at FROM steps")
    assert (expiry_at - freed_at).total_seconds() >= 10
