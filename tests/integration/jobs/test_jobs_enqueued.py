"""Enqueueing: one job or many, checked at the door, once for each idempotency key."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from perdure import Client, JobStatus, NewJob, PerdureApiError
from perdure_ingest import job_schemas
from perdure_runtime.errors import Reason, Unavailable
from perdure_store.pool import Connection
from perdure_store.reads.jobs import read_latest_types
from perdure_testkit.api_keys import give_key
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def stored(rows: asyncpg.Connection) -> int:
    """What a start leaves: runs and start keys."""
    counted: int = await rows.fetchval(
        "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM start_keys)"
    )
    return counted


async def refusal(call: Any) -> PerdureApiError:
    with pytest.raises(PerdureApiError) as caught:
        await call
    return caught.value


async def test_a_job_is_queued_with_its_payload_byte_for_byte_and_done_by_a_worker(
    client: Client, calls: Calls
) -> None:
    payload = b'{"to": "ann",  "n": 18446744073709551616}'
    made = await client.jobs.enqueue("note", payload, tags={"a": "b"}, priority=7)
    job = await client.jobs.get(made.job_id)
    assert (job.type, job.type_version, job.status) == ("note", 1, JobStatus.JOB_STATUS_QUEUED)
    assert (job.payload, job.priority, dict(job.tags)) == (payload, 7, {"a": "b"})
    assert job.queue == "io:default"

    grant = await calls.grant(UUID(made.job_id))
    assert (await client.jobs.get(made.job_id)).status == JobStatus.JOB_STATUS_RUNNING
    assert grant.input == payload
    await calls.succeed(grant.lease, b'{"sent": 1}')

    done = await client.jobs.wait(made.job_id, timeout=10)
    assert (done.status, done.output) == (JobStatus.JOB_STATUS_COMPLETED, b'{"sent": 1}')
    assert [one.outcome for one in done.attempts] == ["completed"]


async def test_a_job_is_a_run_and_is_seen_as_one(client: Client) -> None:
    made = await client.jobs.enqueue("note", idempotency_key="k")
    run = await client.get_run(made.job_id)
    assert (run.workflow, run.workflow_version, run.start_key) == ("job:note", 1, "k")
    assert [(step.node, step.kind) for step in run.steps] == [("job", "task")]


async def test_absent_members_take_the_defaults_of_the_schema(client: Client) -> None:
    made = await client.jobs.enqueue("mail", {"to": "ann"})
    payload = (await client.jobs.get(made.job_id)).payload
    assert json.loads(payload) == {"to": "ann", "language": "en"}


async def test_a_payload_that_does_not_fit_is_refused_by_field_and_nothing_is_stored(
    client: Client, rows: asyncpg.Connection
) -> None:
    error = await refusal(client.jobs.enqueue("mail", {"lines": ["a", 2]}, idempotency_key="k"))
    assert error.reason == "FIELD_INVALID"
    assert sorted(one.field for one in error.fields) == ["payload.lines[1]", "payload.to"]
    assert await stored(rows) == 0
    again = await client.jobs.enqueue("mail", {"to": "ann"}, idempotency_key="k")
    assert again.created  # the refused request left its key free


async def test_what_is_no_json_and_a_type_that_there_is_not_are_refused(client: Client) -> None:
    error = await refusal(client.jobs.enqueue("mail", b"{"))
    assert (error.reason, error.fields[0].field) == ("PAYLOAD_INVALID", "payload")
    error = await refusal(client.jobs.enqueue("fax", {}))
    assert (error.reason, error.metadata["type"]) == ("JOB_TYPE_NOT_FOUND", "fax")


async def test_f116_the_same_request_under_a_key_is_the_first_job_and_another_is_told_which(
    client: Client, calls: Calls
) -> None:
    first = await client.jobs.enqueue("mail", {"to": "ann"}, idempotency_key="k")
    again = await client.jobs.enqueue("mail", {"to": "ann"}, idempotency_key="k")
    assert (again.job_id, again.created) == (first.job_id, False)

    grant = await calls.grant(UUID(first.job_id))
    await calls.succeed(grant.lease)  # the key is taken after its job has ended, too
    for type_, payload in (("mail", {"to": "bob"}), ("note", {"to": "ann"})):
        error = await refusal(client.jobs.enqueue(type_, payload, idempotency_key="k"))
        assert (error.reason, error.metadata["job_id"]) == ("JOB_ALREADY_ENQUEUED", first.job_id)


async def test_f119_one_key_at_one_moment_enqueues_one_job(
    client: Client, rows: asyncpg.Connection
) -> None:
    one = NewJob(type="note", payload=1, idempotency_key="k")
    alone = [client.jobs.enqueue("note", 1, idempotency_key="k") for _ in range(20)]
    together = [client.jobs.enqueue_many([one] * 20) for _ in range(3)]
    single, many = await asyncio.gather(asyncio.gather(*alone), asyncio.gather(*together))
    made = [(one.job_id, one.created) for one in single]
    made += [(one.job_id, one.created) for answer in many for one in answer]
    assert len({job_id for job_id, _ in made}) == 1
    assert sum(created for _, created in made) == 1
    assert await rows.fetchval("SELECT count(*) FROM runs") == 1


async def test_a_job_may_begin_later(client: Client) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    made = await client.jobs.enqueue("note", available_at=at)
    job = await client.jobs.get(made.job_id)
    assert job.status == JobStatus.JOB_STATUS_SCHEDULED
    assert job.available_at.ToDatetime(UTC) == at
    assert not job.queue

    after = await client.jobs.enqueue("note", available_after=3600)
    seen = await client.jobs.get(after.job_id)
    assert seen.available_at.ToDatetime(UTC) - seen.created_at.ToDatetime(UTC) >= timedelta(
        minutes=59
    )

    error = await refusal(client.jobs.enqueue("note", available_at=at, available_after=1))
    assert [one.field for one in error.fields] == ["available_after"]


async def test_many_jobs_are_enqueued_in_one_call_and_answered_in_order(
    client: Client, rows: asyncpg.Connection
) -> None:
    jobs = [NewJob(type="mail", payload={"to": f"p{number}"}) for number in range(600)]
    results = await client.jobs.enqueue_many(jobs)
    assert all(one.created and one.type_version == 1 for one in results)
    job = await client.jobs.get(results[599].job_id)
    assert json.loads(job.payload)["to"] == "p599"
    assert await rows.fetchval("SELECT count(*) FROM outbox") == 600


async def test_of_many_jobs_none_is_stored_if_one_is_malformed(
    client: Client, rows: asyncpg.Connection
) -> None:
    good = NewJob(type="mail", payload={"to": "ann"}, idempotency_key="good")
    wrong = [
        NewJob(type="mail", payload={}),
        NewJob(type="mail", payload={"to": 5}),
    ]
    error = await refusal(client.jobs.enqueue_many([good, *wrong]))
    assert error.reason == "FIELD_INVALID"
    assert [one.field for one in error.fields] == ["jobs[1].payload.to", "jobs[2].payload.to"]

    error = await refusal(client.jobs.enqueue_many([good, NewJob(type="mail", priority=101)]))
    assert [one.field for one in error.fields] == ["jobs[1].priority"]
    error = await refusal(client.jobs.enqueue_many([good, NewJob(type="fax")]))
    assert (error.reason, error.metadata["type"]) == ("JOB_TYPE_NOT_FOUND", "fax")
    for count in (0, 1001):
        error = await refusal(client.jobs.enqueue_many([NewJob(type="note")] * count))
        assert [one.field for one in error.fields] == ["jobs"]
    assert await stored(rows) == 0


async def test_p12_calls_at_one_moment_are_each_judged_by_their_own_orgs_types(
    client: Client, database: Database
) -> None:
    key = await give_key(await database.connect(), org="rival")
    async with Client(client.address, api_key=key, timeout=20.0) as rival:
        await rival.jobs.put_type("note", handler="note.take", payload_schema={"type": "integer"})
        note, mail = NewJob(type="note", payload="text"), NewJob(type="mail", payload={"to": "ann"})
        own = [client.jobs.enqueue_many([note, mail]) for _ in range(8)]
        refused = [rival.jobs.enqueue_many([note]) for _ in range(8)]
        unknown = [rival.jobs.enqueue_many([mail]) for _ in range(8)]
        outcomes = await asyncio.gather(*own, *refused, *unknown, return_exceptions=True)
    assert all(len(one) == 2 for one in outcomes[:8] if not isinstance(one, BaseException))
    reasons = [getattr(one, "reason", "") for one in outcomes]
    assert reasons == [""] * 8 + ["FIELD_INVALID"] * 8 + ["JOB_TYPE_NOT_FOUND"] * 8


async def test_a_read_of_job_types_that_fails_for_one_org_fails_for_no_other(
    client: Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken_for_rival(connection: Connection, org: str, names: list[str]) -> Any:
        if org == "rival":
            raise Unavailable("no", reason=Reason.STORE_UNAVAILABLE)
        return await read_latest_types(connection, org, names)

    pool = await database.open_pool("ingest")
    schemas = job_schemas.JobSchemas(pool)
    await schemas.start()
    monkeypatch.setattr(job_schemas, "read_latest_types", broken_for_rival)
    found, broken = await asyncio.gather(
        schemas.of("default", ["note"]), schemas.of("rival", ["note"]), return_exceptions=True
    )
    assert found == {"note": b""}
    assert isinstance(broken, Unavailable)
    await schemas.stop()


async def test_of_many_jobs_a_schema_that_was_just_put_is_the_one_they_must_fit(
    client: Client,
) -> None:
    note = NewJob(type="note", payload="text")
    await asyncio.gather(*(client.jobs.enqueue_many([note]) for _ in range(8)))
    await client.jobs.put_type("note", handler="note.take", payload_schema={"type": "integer"})
    error = await refusal(client.jobs.enqueue_many([note]))
    assert error.reason == "FIELD_INVALID"


async def test_of_many_jobs_one_whose_key_is_taken_does_not_hinder_the_others(
    client: Client,
) -> None:
    first = await client.jobs.enqueue("note", 1, idempotency_key="k")
    jobs = [
        NewJob(type="note", payload=1, idempotency_key="k"),
        NewJob(type="note", payload=2, idempotency_key="k"),
        NewJob(type="note", payload=3),
    ]
    same, other, new = await client.jobs.enqueue_many(jobs)
    assert (same.job_id, same.created) == (first.job_id, False)
    assert (other.job_id, other.refusal.reason) == ("", "JOB_ALREADY_ENQUEUED")
    assert other.refusal.metadata["job_id"] == first.job_id
    assert (new.created, new.HasField("refusal")) == (True, False)
