"""Leases that ran out: taken when their holder could have renewed, never from innocents (p3)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_coordinator import answers
from perdure_runtime.election import Leadership
from perdure_runtime.errors import DeadlineExceeded, Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_store.sweeps import expired_leases
from perdure_sweeper import expiry
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually

FIRST_FOUR = """
SELECT run_id FROM runs
 WHERE run_id IN (SELECT run_id FROM steps ORDER BY lease_expires_at, run_id LIMIT 4) FOR UPDATE
"""
LEASE_SECONDS = 30.0  # of the lane io
TIMEOUT = "name: limited\nnodes: {a: {task: {handler: h}, timeout: 5s}}"


async def test_r4_p3_a_lost_step_is_queued_again_with_a_row_of_its_own(
    calls: Calls, sweeps: Any
) -> None:
    run = await calls.start()
    grant = await calls.grant(run)
    assert not await sweeps.queued_again(run)
    await sweeps.be_well()
    await sweeps.expired(run)

    done = await sweeps.expiry.run_once()

    assert done.counts == {"expired_leases": 1, "old_runs": 0, "stalled_runs": 0}
    assert await sweeps.statuses(run) == ["queued"]
    assert await sweeps.queued_again(run)
    step = await sweeps.step(run)
    assert (step["losses"], step["failures"], step["fence"]) == (1, 0, 1)
    assert (await calls.succeed(grant.lease)).status == hot.ITEM_STATUS_STALE
    again = await calls.grant(run)
    assert again.lease.fence == 2


async def test_r6_a_lease_that_was_renewed_in_between_is_left_alone(
    calls: Calls, sweeps: Any, database: Database
) -> None:
    run = await calls.start()
    grant = await calls.grant(run)
    await sweeps.expired(run)
    pool = await database.open_pool("sweeper")
    async with pool.acquire() as connection:
        candidates = await expired_leases(connection, None, limit=10, well_for=3600.0)
    assert [one.run_id for one in candidates] == [run]
    (renewed,) = await calls.renew(grant.lease)
    assert renewed.status == hot.RENEW_STATUS_RENEWED

    (status,) = await calls.expire(grant.lease)

    assert status == hot.ITEM_STATUS_STALE
    assert await sweeps.statuses(run) == ["running"]
    assert (await calls.succeed(grant.lease)).status == hot.ITEM_STATUS_APPLIED


async def test_p3_after_a_start_nothing_is_taken_for_one_lease_length(
    calls: Calls, sweeps: Any
) -> None:
    run = await calls.start()
    await calls.grant(run)
    await sweeps.expired(run)

    first = await sweeps.expiry.run_once()
    sweeps.clock.now += LEASE_SECONDS - 1
    still = await sweeps.expiry.run_once()
    sweeps.clock.now += 1
    then = await sweeps.expiry.run_once()

    taken = [one.counts["expired_leases"] for one in (first, still, then)]
    assert taken == [0, 0, 1]


@pytest.mark.parametrize(
    "away",
    [
        pytest.param("sweeper.expire_leases", id="the-coordinator"),
        pytest.param("store.commit_renewals", id="its-renewals"),
    ],
)
async def test_p3_after_a_failed_pass_nothing_is_taken_for_one_lease_length(
    calls: Calls, sweeps: Any, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    run = await calls.start()
    await calls.grant(run)
    await sweeps.be_well()
    with monkeypatch.context() as patch, arm(away, "before", Raise()):
        patch.setattr(expiry, "CALL_SECONDS", 0.5)
        with pytest.raises((Unavailable, DeadlineExceeded)):
            await sweeps.expiry.run_once()
    await sweeps.expired(run)

    first = await sweeps.expiry.run_once()
    sweeps.clock.now += LEASE_SECONDS
    then = await sweeps.expiry.run_once()

    assert [one.counts["expired_leases"] for one in (first, then)] == [0, 1]


async def test_p3_after_the_clock_jumped_nothing_is_taken_for_one_lease_length(
    calls: Calls, sweeps: Any
) -> None:
    run = await calls.start()
    await calls.grant(run)
    await sweeps.be_well()
    await sweeps.expiry.run_once()
    await sweeps.expired(run)
    sweeps.clock.now -= 60.0  # as if the database's had gone on for a minute without ours

    first = await sweeps.expiry.run_once()
    sweeps.clock.now += LEASE_SECONDS
    then = await sweeps.expiry.run_once()

    assert [one.counts["expired_leases"] for one in (first, then)] == [0, 1]


async def test_p3_a_lease_that_was_taken_in_good_times_is_taken_away_when_it_ends(
    calls: Calls, sweeps: Any
) -> None:
    run = await calls.start()
    await calls.grant(run)
    await sweeps.be_well(25.0)
    await sweeps.expired(run, taken_ago=11.0)

    done = await sweeps.expiry.run_once()

    assert done.counts["expired_leases"] == 1


async def test_p3_who_takes_over_waits_one_lease_length_too(
    calls: Calls, sweeps: Any, leadership: Leadership
) -> None:
    run = await calls.start()
    await calls.grant(run)
    await sweeps.be_well()
    leadership.trust_until(float("-inf"))
    assert (await sweeps.expiry.run_once()).counts == {}
    leadership.trust_until(float("inf"))
    await sweeps.expired(run)

    assert (await sweeps.expiry.run_once()).counts["expired_leases"] == 0


async def test_a_try_that_reached_its_timeout_is_a_failure_and_one_before_it_a_loss(
    calls: Calls, sweeps: Any
) -> None:
    await calls.publish(TIMEOUT)
    late, lost = await calls.start("limited"), await calls.start("limited")
    await calls.grant(late)
    await calls.grant(lost)
    await sweeps.be_well()
    await sweeps.expired(late, lost)
    await sweeps.rows.execute(
        "UPDATE steps SET try_expires_at = lease_expires_at + CASE WHEN run_id = $1"
        " THEN interval '0' ELSE interval '1 s' END WHERE status = 'running'",
        late,
    )

    done = await sweeps.expiry.run_once()

    assert done.counts["expired_leases"] == 2
    outcomes = await sweeps.rows.fetch("SELECT run_id, outcome FROM attempts")
    assert {row["run_id"]: row["outcome"] for row in outcomes} == {late: "timed_out", lost: "lost"}
    assert await sweeps.statuses(late) == ["backing_off"]
    assert await sweeps.statuses(lost) == ["queued"]
    step = await sweeps.step(late)
    assert (step["failures"], step["losses"]) == (1, 0)


async def test_f057_pages_go_past_runs_that_somebody_holds(
    calls: Calls, sweeps: Any, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    runs = [await calls.start() for _ in range(8)]
    for run in runs:
        await calls.grant(run)
    await sweeps.be_well()
    await sweeps.expired(*runs)
    monkeypatch.setattr(expiry, "PAGE", 3)
    monkeypatch.setattr(answers, "PATIENCE_SECONDS", 0.2)
    holder = await database.connect()
    async with holder.transaction():
        held = await holder.fetch(FIRST_FOUR)
        await sweeps.expiry.run_once()
        for run in set(runs) - {row["run_id"] for row in held}:
            await eventually(partial(sweeps.queued_again, run), what="a step behind held ones")
        for row in held:
            assert await sweeps.statuses(row["run_id"]) == ["running"]


@pytest.mark.breaks_r10("a run's workflow is taken away, so that nothing can be decided for it")
async def test_f057_a_run_that_cannot_be_decided_stands_in_nobodys_way(
    calls: Calls, sweeps: Any
) -> None:
    broken, whole = await calls.start(), await calls.start()
    await calls.grant(broken)
    await calls.grant(whole)
    await sweeps.be_well()
    await sweeps.expired(broken, ago=5.0)
    await sweeps.expired(whole, ago=1.0)
    await sweeps.rows.execute("UPDATE runs SET workflow_id = 0 WHERE run_id = $1", broken)

    passes = [await sweeps.expiry.run_once() for _ in range(2)]

    assert [one.counts["expired_leases"] for one in passes] == [1, 0]
    assert await sweeps.statuses(whole) == ["queued"]


async def test_leases_of_a_closed_run_end_its_steps(calls: Calls, sweeps: Any) -> None:
    run = await calls.start()
    await calls.grant(run)
    await calls.cancel(run)
    await sweeps.be_well()
    await sweeps.expired(run)

    await sweeps.expiry.run_once()

    assert await sweeps.statuses(run) == ["cancelled"]
    assert not await sweeps.queued_again(run)
