"""What ingest makes of jobs before a coordinator that the test scripts."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from perdure import Client, NewJob, PerdureApiError
from perdure_contracts.internal.v1.coordinator_service_pb2 import StartRunResult
from perdure_contracts.v1 import job_service_pb2, job_service_pb2_grpc
from perdure_machine.job_types import JobType, to_document
from perdure_runtime.errors import (
    FieldViolation,
    InvalidArgument,
    PerdureError,
    Reason,
    Unavailable,
)
from perdure_runtime.rpc.errors import to_status

JOBS = 600


@pytest.fixture
async def note(rows: Any) -> None:
    """A job type without a schema, as it is stored."""
    document = to_document(JobType(name="note", handler="note.take"))
    await rows.connection.execute(
        "INSERT INTO workflows (org, name, version, digest, document) "
        "VALUES ('default', 'job:note', 1, sha256($1), $1)",
        document,
    )


def answering(error: PerdureError) -> Any:
    async def start(item: Any) -> StartRunResult:
        return StartRunResult(error=to_status(error))

    return start


async def test_a_job_reaches_the_coordinator_as_the_start_that_it_is(
    client: Client, coordinator: Any
) -> None:
    await client.jobs.enqueue(
        "note",
        b'{"n":  1}',
        idempotency_key="k",
        tags={"a": "b"},
        priority=3,
        available_after=timedelta(seconds=5),
    )
    (item,) = coordinator.items
    assert (item.org, item.workflow, item.version, item.start_key) == (
        "default",
        "job:note",
        0,
        "k",
    )
    assert (item.input, dict(item.tags), item.priority) == (b'{"n":  1}', {"a": "b"}, 3)
    assert item.start_after.seconds == 5


async def test_many_jobs_share_the_calls_that_starts_share(
    client: Client, coordinator: Any, note: None
) -> None:
    jobs = [NewJob(type="note", payload=number) for number in range(JOBS)]
    results = await client.jobs.enqueue_many(jobs)
    assert len({one.job_id for one in results}) == len(coordinator.items) == JOBS
    assert len(coordinator.batches) <= 5


async def test_protocol_p7_jobs_without_a_key_get_one_each_for_ingests_own_repeats(
    client: Client, coordinator: Any, note: None
) -> None:
    stub = job_service_pb2_grpc.JobServiceStub(client._transport.channel)
    job = job_service_pb2.EnqueueJobRequest(type="note")
    call = client._transport.call
    await call(stub.EnqueueJobs, job_service_pb2.EnqueueJobsRequest(jobs=[job, job]))
    await call(stub.EnqueueJob, job)
    keys = {item.start_key for item in coordinator.items}
    assert len(keys) == 3
    assert all(uuid.UUID(key.removeprefix("call:")).version == 4 for key in keys)


async def test_if_no_job_could_be_stored_the_call_says_so_and_is_repeated(
    client: Client, coordinator: Any, note: None
) -> None:
    away = Unavailable("away", reason=Reason.STORE_UNAVAILABLE, retry_after=0.01)
    usual: Callable[[Any], Awaitable[StartRunResult]] = coordinator.start
    asked = itertools.count()

    async def start(item: Any) -> StartRunResult:
        is_first_call = next(asked) < 2 * 5  # two jobs, each asked as often as ingest asks
        return StartRunResult(error=to_status(away)) if is_first_call else await usual(item)

    coordinator.start = start
    results = await client.jobs.enqueue_many([NewJob(type="note"), NewJob(type="note")])
    assert all(one.created for one in results)
    keys = {item.start_key for item in coordinator.items}
    assert len(keys) == 2  # the repeat was of the same jobs


async def test_a_type_that_changed_in_between_refuses_the_job_by_its_own_fields(
    client: Client, coordinator: Any, note: None
) -> None:
    violations = [FieldViolation("input.to", "it is required"), FieldViolation("input", "too old")]
    coordinator.start = answering(InvalidArgument("no", violations=violations))
    (result,) = await client.jobs.enqueue_many([NewJob(type="note")])
    assert result.refusal.reason == "FIELD_INVALID"
    assert result.refusal.message == "2 field(s) do not fit: payload.to: it is required"
    with pytest.raises(PerdureApiError) as caught:
        await client.jobs.enqueue("note")
    assert [one.field for one in caught.value.fields] == ["payload.to", "payload"]


async def test_f091_of_a_job_that_was_tried_often_the_newest_tries_are_shown(
    client: Client, rows: Any
) -> None:
    job_id = await rows.run(workflow="job:note", status="failed")
    await rows.step(job_id, status="failed", failures=150)
    await rows.connection.execute(
        "INSERT INTO attempts "
        "(run_id, step, fence, lease_id, worker, outcome, started_at, ended_at) "
        "SELECT $1, 1, fence, gen_random_uuid(), 'w', 'failed', now(), now() "
        "FROM generate_series(1, 150) AS fence",
        job_id,
    )
    job = await client.jobs.get(str(job_id))
    assert [one.fence for one in job.attempts] == list(range(51, 151))
    assert job.failures == 150
