"""What is seen of jobs, tries, errors, lists, dead ones, and what people do to them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from perdure import Client, JobRetry, JobStatus, PerdureApiError
from perdure_contracts.internal.v1.coordinator_service_pb2 import TimerRef
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def refusal(call: Any) -> PerdureApiError:
    with pytest.raises(PerdureApiError) as caught:
        await call
    return caught.value


async def ids(listed: AsyncIterator[Any]) -> list[str]:
    return [each.job_id async for each in listed]


async def fail(calls: Calls, job_id: str, category: str = "permanent") -> None:
    """Let a try of a job fail."""
    grant = await calls.grant(UUID(job_id))
    await calls.fail(grant.lease, category)


async def end_back_off(calls: Calls, rows: asyncpg.Connection, job_id: str) -> None:
    """Let the next try of a job be due."""
    timer = await rows.fetchval(
        "UPDATE timers SET due_at = clock_timestamp() WHERE run_id = $1 AND kind = 'retry' "
        "RETURNING timer_id",
        UUID(job_id),
    )
    await calls.fire(TimerRef(timer_id=timer, org=calls.org, run_id=job_id))


async def fire_internal(calls: Calls, rows: asyncpg.Connection, job_id: str) -> None:
    """Deliver a job's internal events until there are no more."""
    query = "SELECT timer_id FROM timers WHERE run_id = $1 AND internal"
    while timer := await rows.fetchval(query, UUID(job_id)):
        await calls.fire(TimerRef(timer_id=timer, org=calls.org, run_id=job_id))


async def test_every_try_is_seen_with_its_error_and_the_last_one_apart(
    client: Client, calls: Calls, rows: asyncpg.Connection
) -> None:
    await client.jobs.put_type("picky", handler="h", retry=[JobRetry(max=3)])
    job_id = (await client.jobs.enqueue("picky")).job_id
    await fail(calls, job_id, "retryable")

    waiting = await client.jobs.get(job_id)
    assert (waiting.status, waiting.failures) == (JobStatus.JOB_STATUS_BACKING_OFF, 1)
    assert (waiting.last_error.code, waiting.last_error.message) == ("BROKEN", "broken")
    assert waiting.next_try_at.ToDatetime() > waiting.created_at.ToDatetime()

    await end_back_off(calls, rows, job_id)
    grant = await calls.grant(UUID(job_id))
    await calls.succeed(grant.lease, b'"done"')
    done = await client.jobs.get(job_id)
    assert (done.status, done.output) == (JobStatus.JOB_STATUS_COMPLETED, b'"done"')
    assert [(one.outcome, one.error.code) for one in done.attempts] == [
        ("failed", "BROKEN"),
        ("completed", ""),
    ]
    assert done.last_error.code == "BROKEN"


async def test_a_job_that_fails_for_good_is_dead_and_replayed_as_the_same_job(
    client: Client, calls: Calls, rows: asyncpg.Connection
) -> None:
    job_id = (await client.jobs.enqueue("note", idempotency_key="k")).job_id
    await fail(calls, job_id)
    failed = await client.jobs.get(job_id)
    assert (failed.status, failed.last_error.code) == (JobStatus.JOB_STATUS_FAILED, "BROKEN")
    (dead,) = [each async for each in client.jobs.dead()]
    assert (dead.job_id, dead.type, dead.cause) == (job_id, "note", "permanent")
    assert dead.error.code == "BROKEN"

    assert await client.jobs.replay(job_id, "mended")
    assert not await client.jobs.replay(job_id)
    assert await ids(client.jobs.dead()) == []
    await fire_internal(calls, rows, job_id)
    assert (await client.jobs.get(job_id)).status == JobStatus.JOB_STATUS_QUEUED
    grant = await calls.grant(UUID(job_id))
    await calls.succeed(grant.lease)
    done = await client.jobs.get(job_id)
    assert done.status == JobStatus.JOB_STATUS_COMPLETED
    assert [one.outcome for one in done.attempts] == ["failed", "completed"]
    again = await client.jobs.enqueue("note", idempotency_key="k")
    assert (again.job_id, again.created) == (job_id, False)


async def test_dead_jobs_are_listed_and_replayed_by_filter_and_no_other_run_with_them(
    client: Client, calls: Calls, rows: asyncpg.Connection
) -> None:
    notes = [(await client.jobs.enqueue("note")).job_id for _ in range(3)]
    mail = (await client.jobs.enqueue("mail", {"to": "ann"})).job_id
    run = str(await calls.start("w"))
    for each in (*notes, mail, run):
        await fail(calls, each)

    assert await ids(client.jobs.dead()) == [mail, *reversed(notes)]
    assert await ids(client.jobs.dead(type="note", page_size=2)) == [*reversed(notes)]
    assert await ids(client.jobs.dead(code="OTHER")) == []

    answer = await client.jobs.replay_dead(type="note", limit=2, reason="mended")
    assert (answer.replayed, answer.more) == (2, True)
    assert (await client.jobs.replay_dead()).replayed == 4
    replayed = await rows.fetch("SELECT DISTINCT run_id FROM timers WHERE kind = 'replay'")
    assert {str(row["run_id"]) for row in replayed} == {*notes, mail}


async def test_a_cancelled_job_ends_at_once_and_twice_is_once(client: Client, calls: Calls) -> None:
    job_id = (await client.jobs.enqueue("note", available_after=3600)).job_id
    assert await client.jobs.cancel(job_id, "not wanted")
    assert not await client.jobs.cancel(job_id)
    assert (await client.jobs.get(job_id)).status == JobStatus.JOB_STATUS_CANCELLED

    done = (await client.jobs.enqueue("note")).job_id
    grant = await calls.grant(UUID(done))
    await calls.succeed(grant.lease)
    assert (await refusal(client.jobs.cancel(done))).reason == "RUN_CLOSED"
    assert (await refusal(client.jobs.replay(done))).reason == "RUN_CLOSED"


async def test_what_is_no_job_of_the_org_is_not_found(client: Client, calls: Calls) -> None:
    run = str(await calls.start("w"))
    for job_id in (run, str(uuid.uuid4())):
        for call in (client.jobs.get, client.jobs.cancel, client.jobs.replay):
            assert (await refusal(call(job_id))).reason == "JOB_NOT_FOUND"
    assert (await client.get_run(run)).workflow == "w"
    error = await refusal(client.jobs.get("7"))
    assert (error.reason, error.fields[0].field) == ("FIELD_INVALID", "job_id")


async def test_jobs_are_listed_newest_first_in_pages_by_every_filter(
    client: Client, calls: Calls
) -> None:
    await calls.start("w")
    first = (await client.jobs.enqueue("note", tags={"a": "1", "b": "2"})).job_id
    later = (await client.jobs.enqueue("mail", {"to": "x"}, available_after=60)).job_id
    running = (await client.jobs.enqueue("note", tags={"a": "1"})).job_id
    await calls.grant(UUID(running))

    assert await ids(client.jobs.list(page_size=2)) == [running, later, first]
    assert await ids(client.jobs.list(type="note")) == [running, first]
    assert await ids(client.jobs.list(tags={"a": "1", "b": "2"})) == [first]
    for status, found in (
        (JobStatus.JOB_STATUS_QUEUED, [first]),
        (JobStatus.JOB_STATUS_SCHEDULED, [later]),
        (JobStatus.JOB_STATUS_RUNNING, [running]),
        (JobStatus.JOB_STATUS_FAILED, []),
    ):
        assert await ids(client.jobs.list(status=status)) == found
    hour, now = timedelta(hours=1), datetime.now(UTC)
    assert await ids(client.jobs.list(created_from=now - hour, type="mail")) == [later]
    assert await ids(client.jobs.list(created_before=now - hour)) == []
    assert await ids(client.jobs.list(created_from=now + hour)) == []
    error = await refusal(ids(client.jobs.list(created_from=now, created_before=now - hour)))
    assert [one.field for one in error.fields] == ["created_before"]
