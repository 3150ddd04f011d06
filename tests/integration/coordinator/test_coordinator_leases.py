"""Leases over the wire: taken, renewed, released, reported, and each once more (p3, R5, R6)."""

from __future__ import annotations

import uuid

import asyncpg
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

CHAIN = "name: chain\nnodes: {a: {task: {handler: h}}, b: {needs: [a], task: {handler: g}}}"
HTTP = "name: call\nnodes: {a: {http: {method: POST, url: 'http://x/', effect: provider}}}"
QUEUE = "io:default"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def expire(rows: asyncpg.Connection) -> None:
    await rows.execute(
        "UPDATE steps SET lease_expires_at = clock_timestamp() - interval '1 s'"
        " WHERE status = 'running'"
    )


async def test_a_grant_carries_all_that_a_worker_needs(calls: Calls) -> None:
    await calls.publish(CHAIN)
    run = await calls.start("chain", input=b'{"big": 18446744073709551616}')

    grant = await calls.grant(run)

    assert (grant.lease.org, grant.lease.run_id, grant.lease.step) == ("default", str(run), 1)
    assert (grant.node, grant.handler, grant.queue, grant.attempt) == ("a", "h", QUEUE, 1)
    assert (grant.workflow, grant.workflow_version, grant.lease.fence) == ("chain", 1, 1)
    assert grant.input == b'{"big": 18446744073709551616}'
    assert 9_000 < grant.lease_ms <= 10_000


async def test_p3_a_repeat_under_the_same_lease_id_gets_the_same_grant(calls: Calls) -> None:
    run, lease_id = await calls.start(), str(uuid.uuid4())

    (first,) = await calls.acquire(run, lease_id=lease_id)
    (again,) = await calls.acquire(run, lease_id=lease_id)
    (other,) = await calls.acquire(run)

    assert again.status == first.status == hot.ACQUIRE_STATUS_GRANTED
    assert again.grant.lease == first.grant.lease
    assert again.grant.lease_ms <= first.grant.lease_ms
    assert other.status == hot.ACQUIRE_STATUS_GONE


async def test_p3_a_lease_id_that_was_lost_is_refused_for_good(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    run = await calls.start()
    lease = (await calls.grant(run)).lease
    await expire(rows)
    assert await calls.expire(lease) == [hot.ITEM_STATUS_APPLIED]

    (again,) = await calls.acquire(run, lease_id=lease.lease_id)

    assert again.status == hot.ACQUIRE_STATUS_GONE
    assert await calls.renew(lease) == [hot.RenewLeaseResult(status=hot.RENEW_STATUS_LOST)]
    assert await calls.release(lease) == [hot.ITEM_STATUS_STALE]
    assert await calls.expire(lease) == [hot.ITEM_STATUS_STALE]
    assert (await calls.succeed(lease)).status == hot.ITEM_STATUS_STALE


async def test_a_step_that_is_not_there_or_a_run_of_another_org_is_gone(
    calls: Calls,
) -> None:
    run = await calls.start()
    stranger = Calls(calls.channel, org="other")

    answers = [
        *await calls.acquire(run, step=7),
        *await calls.acquire(uuid.uuid4()),
        *await stranger.acquire(run),
    ]

    assert {answer.status for answer in answers} == {hot.ACQUIRE_STATUS_GONE}


async def test_a_renewal_gives_the_lanes_lease_and_tells_of_a_cancel(calls: Calls) -> None:
    run = await calls.start()
    lease = (await calls.grant(run)).lease

    (before,) = await calls.renew(lease)
    await calls.cancel(run)
    (after,) = await calls.renew(lease)

    assert 29_000 < before.lease_ms <= 30_000
    assert [before.cancel_requested, after.cancel_requested] == [False, True]
    assert before.status == after.status == hot.RENEW_STATUS_RENEWED
    await calls.succeed(lease)


async def test_p12_another_org_cannot_touch_a_lease(calls: Calls) -> None:
    run = await calls.start()
    lease = (await calls.grant(run)).lease
    foreign = type(lease)()
    foreign.CopyFrom(lease)
    foreign.org = "other"

    assert (await calls.renew(foreign))[0].status == hot.RENEW_STATUS_LOST
    assert await calls.release(foreign) == [hot.ITEM_STATUS_STALE]
    assert await calls.expire(foreign) == [hot.ITEM_STATUS_STALE]
    assert (await calls.succeed(foreign)).status == hot.ITEM_STATUS_STALE
    assert (await calls.succeed(lease)).status == hot.ITEM_STATUS_APPLIED


async def test_many_renewals_are_answered_in_order(calls: Calls) -> None:
    runs = [await calls.start() for _ in range(6)]
    leases = [(await calls.grant(run)).lease for run in runs]
    await calls.release(leases[2])

    answers = await calls.renew(*leases)

    renewed = [answer.status == hot.RENEW_STATUS_RENEWED for answer in answers]
    assert renewed == [True, True, False, True, True, True]


async def test_p3_a_row_that_is_held_is_answered_again_not_lost(
    calls: Calls, database: Database
) -> None:
    first, second = await calls.start(), await calls.start()
    leases = [(await calls.grant(run)).lease for run in (first, second)]
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute("SELECT FROM steps WHERE run_id = $1 FOR UPDATE", first)
        answers = await calls.renew(*leases)

    assert [answer.status for answer in answers] == [
        hot.RENEW_STATUS_AGAIN,
        hot.RENEW_STATUS_RENEWED,
    ]


async def test_a_release_queues_the_step_and_counts_nothing(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    run = await calls.start()
    lease = (await calls.grant(run)).lease

    assert await calls.release(lease) == [hot.ITEM_STATUS_APPLIED]
    assert await calls.release(lease) == [hot.ITEM_STATUS_STALE]

    step = await rows.fetch("SELECT status::text, failures, losses FROM steps")
    assert [tuple(row) for row in step] == [("queued", 0, 0)]
    assert (await calls.grant(run)).lease.fence == 2


async def test_r5_a_report_counts_once_and_its_repeat_is_answered_alike(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    await calls.publish(CHAIN)
    run = await calls.start("chain")
    lease = (await calls.grant(run)).lease
    item = hot.ReportResultItem(lease=lease, output=b"1", next_lease_id=str(uuid.uuid4()))

    (first,) = await calls.report(item, queues=[QUEUE])
    (again,) = await calls.report(item, queues=[QUEUE])

    assert first.status == again.status == hot.ITEM_STATUS_APPLIED
    assert first.next.node == "b"
    assert again.next.lease == first.next.lease
    assert await rows.fetchval("SELECT count(*) FROM outbox") == 0
    ended = await rows.fetchval("SELECT count(*) FROM history WHERE kind = 'step_completed'")
    assert ended == 1


async def test_a_report_without_an_offer_queues_the_next_step(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    await calls.publish(CHAIN)
    run = await calls.start("chain")

    result = await calls.succeed((await calls.grant(run)).lease)

    assert not result.HasField("next")
    assert await rows.fetchval("SELECT step FROM outbox") == 2


async def test_a_failure_waits_for_its_retry_and_says_what_happened(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    run = await calls.start()
    lease = (await calls.grant(run)).lease

    assert (await calls.fail(lease)).status == hot.ITEM_STATUS_APPLIED
    assert (await calls.fail(lease)).status == hot.ITEM_STATUS_APPLIED

    step = await rows.fetchrow("SELECT status::text, failures, error FROM steps")
    assert step is not None
    assert (step["status"], step["failures"]) == ("backing_off", 1)
    assert b"BROKEN" in step["error"]


async def test_p4_a_report_after_a_loss_settles_its_effect_all_the_same(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    await calls.publish(HTTP)
    run = await calls.start("call")
    grant = await calls.grant(run)
    assert (grant.effect.kind, grant.effect.calls) == ("provider", 1)
    await expire(rows)
    await calls.expire(grant.lease)
    assert await rows.fetchval("SELECT status::text FROM effects") == "outcome_unknown"

    late = await calls.succeed(grant.lease)

    assert late.status == hot.ITEM_STATUS_STALE
    assert await rows.fetchval("SELECT status::text FROM effects") == "settled"
    assert (await calls.grant(run)).effect.key == grant.effect.key


async def test_r6_a_lease_that_lives_is_not_taken_away(calls: Calls) -> None:
    lease = (await calls.grant(await calls.start())).lease

    assert await calls.expire(lease) == [hot.ITEM_STATUS_STALE]
    assert (await calls.succeed(lease)).status == hot.ITEM_STATUS_APPLIED


async def test_r6_why_a_lease_ended_is_checked_where_it_is_written(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    run = await calls.start()
    lease = (await calls.grant(run)).lease
    await expire(rows)

    assert await calls.expire(lease, timed_out=True) == [hot.ITEM_STATUS_STALE]
    assert await calls.expire(lease) == [hot.ITEM_STATUS_APPLIED]
