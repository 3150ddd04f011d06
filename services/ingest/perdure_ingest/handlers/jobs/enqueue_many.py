"""JobService.EnqueueJobs: all are checked before any is stored, then each has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from perdure_contracts.internal.v1.coordinator_service_pb2 import StartRunItem
from perdure_contracts.v1.job_service_pb2 import (
    EnqueueJobRequest,
    EnqueueJobsRequest,
    EnqueueJobsResponse,
    EnqueueJobsResult,
    JobRefusal,
)
from perdure_machine.definition.inputs import with_defaults
from perdure_runtime.errors import FieldViolation, InvalidArgument, PerdureError, RetryableError
from perdure_runtime.gate.identity import Caller

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.jobs.enqueue import check, enqueue
from perdure_ingest.handlers.jobs.refusals import (
    does_not_fit,
    job_type_not_found,
    payload_violations,
)
from perdure_ingest.validation import Check


async def enqueue_jobs(
    doors: Doors, caller: Caller, request: EnqueueJobsRequest
) -> EnqueueJobsResponse:
    """Enqueue what is asked, unless something of it is malformed."""
    items = _checked(caller, request.jobs)
    schemas = await _schemas(doors, caller, request.jobs)
    if any(schemas.values()):
        # Apart from the event loop: together the payloads may be megabytes (P8).
        await asyncio.to_thread(_check_payloads, request.jobs, schemas)
    outcomes = await asyncio.gather(
        *(_outcome(doors, item, job) for item, job in zip(items, request.jobs, strict=True))
    )
    unavailable = [one for one in outcomes if isinstance(one, RetryableError)]
    if len(unavailable) == len(outcomes):
        raise unavailable[0]
    return EnqueueJobsResponse(results=map(_result, outcomes))


def _checked(caller: Caller, jobs: Sequence[EnqueueJobRequest]) -> list[StartRunItem]:
    fields = Check()
    if not 1 <= len(jobs) <= limits.MAX_JOBS:
        fields.add("jobs", f"must be 1 to {limits.MAX_JOBS}, are {len(jobs)}")
    items = [
        check(fields, caller, job, f"jobs[{place}].")
        for place, job in enumerate(jobs[: limits.MAX_JOBS])
    ]
    fields.refuse()
    return items


async def _schemas(
    doors: Doors, caller: Caller, jobs: Sequence[EnqueueJobRequest]
) -> Mapping[str, bytes]:
    """Return the payload schema of each type that is named, empty for none."""
    names = sorted({job.type for job in jobs})
    found = await doors.job_schemas.of(caller.org, names)
    for name in names:
        if name not in found:
            raise job_type_not_found(name)
    return {name: found[name] for name in names}


def _check_payloads(jobs: Sequence[EnqueueJobRequest], schemas: Mapping[str, bytes]) -> None:
    """Raise InvalidArgument with every field of every payload that does not fit."""
    found: list[FieldViolation] = []
    for place, job in enumerate(jobs):
        try:
            if schema := schemas[job.type]:
                with_defaults(schema, job.payload)
        except InvalidArgument as refusal:
            found += payload_violations(refusal, f"jobs[{place}].")
    if found:
        raise does_not_fit(found)


async def _outcome(
    doors: Doors, item: StartRunItem, job: EnqueueJobRequest
) -> EnqueueJobsResult | PerdureError:
    try:
        made = await enqueue(doors, item, job.type)
    except PerdureError as refusal:
        return refusal
    return EnqueueJobsResult(
        job_id=made.job_id, type_version=made.type_version, created=made.created
    )


def _result(outcome: EnqueueJobsResult | PerdureError) -> EnqueueJobsResult:
    if isinstance(outcome, EnqueueJobsResult):
        return outcome
    return EnqueueJobsResult(
        refusal=JobRefusal(
            reason=str(outcome.reason), message=outcome.message, metadata=dict(outcome.metadata)
        )
    )
