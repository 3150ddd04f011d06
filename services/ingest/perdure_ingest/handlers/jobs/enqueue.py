"""JobService.EnqueueJob: a job is started as the run that it is."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import StartRunItem
from perdure_contracts.v1.job_service_pb2 import EnqueueJobRequest, EnqueueJobResponse
from perdure_machine.job_types import workflow_of
from perdure_runtime.errors import PerdureError
from perdure_runtime.gate.identity import Caller
from perdure_runtime.tracing import current_traceparent

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.jobs.refusals import of_enqueueing
from perdure_ingest.start_keys import check_start_key, own_start_key
from perdure_ingest.validation import Check


async def enqueue_job(
    doors: Doors, caller: Caller, request: EnqueueJobRequest
) -> EnqueueJobResponse:
    """Enqueue a job, or find the one that the same request enqueued before."""
    fields = Check()
    item = check(fields, caller, request)
    fields.refuse()
    return await enqueue(doors, item, request.type)


async def enqueue(doors: Doors, item: StartRunItem, job_type: str) -> EnqueueJobResponse:
    """Have the run of a job started. Raises what was refused, in the words of jobs."""
    try:
        result = await doors.coordinator.start_run(item)
    except PerdureError as refusal:
        raise of_enqueueing(refusal, job_type) from refusal
    return EnqueueJobResponse(
        job_id=result.run_id, type_version=result.workflow_version, created=result.created
    )


def check(
    fields: Check, caller: Caller, request: EnqueueJobRequest, place: str = ""
) -> StartRunItem:
    """Return the start that makes the job; what is wrong with it at `place` is noted."""
    name = fields.text(f"{place}type", request.type, longest=limits.MAX_NAME, required=True)
    key = check_start_key(fields, f"{place}idempotency_key", request.idempotency_key)
    item = StartRunItem(
        org=caller.org,
        workflow=workflow_of(name),
        input=fields.payload(f"{place}payload", request.payload),
        start_key=key or own_start_key(),
        tags=fields.tags(f"{place}tags", request.tags),
        priority=fields.number(
            f"{place}priority",
            request.priority,
            least=limits.MIN_PRIORITY,
            most=limits.MAX_PRIORITY,
        ),
        traceparent=current_traceparent(),
    )
    _put_off(fields, request, item, place)
    fields.text(f"{place}request_id", request.request_id, longest=limits.MAX_REQUEST_ID)
    return item


def _put_off(fields: Check, request: EnqueueJobRequest, item: StartRunItem, place: str) -> None:
    """Check when the job may begin, and pass it on as it was asked."""
    if request.HasField("available_at") and request.HasField("available_after"):
        fields.add(f"{place}available_after", "is given beside available_at; give one of them")
    if request.HasField("available_at"):
        fields.instant(f"{place}available_at", request.available_at)
        item.start_at.CopyFrom(request.available_at)
    if request.HasField("available_after"):
        fields.duration(f"{place}available_after", request.available_after)
        item.start_after.CopyFrom(request.available_after)
