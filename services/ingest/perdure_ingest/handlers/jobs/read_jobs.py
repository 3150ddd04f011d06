"""JobService.GetJob and ListJobs."""

from __future__ import annotations

from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from perdure_contracts.v1.job_pb2 import JOB_STATUS_UNSPECIFIED, JobStatus
from perdure_contracts.v1.job_service_pb2 import (
    GetJobRequest,
    GetJobResponse,
    ListJobsRequest,
    ListJobsResponse,
)
from perdure_machine.job_types import workflow_of
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.jobs import JobFilter, read_job
from perdure_store.reads.jobs import list_jobs as read_jobs

from perdure_ingest import limits
from perdure_ingest.doors import Doors, refuse_oversized
from perdure_ingest.handlers.jobs.refusals import job_not_found
from perdure_ingest.page_tokens import Query
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.jobs import job_message

_PREFIX = "JOB_STATUS_"


async def get_job(doors: Doors, caller: Caller, request: GetJobRequest) -> GetJobResponse:
    """Read a job with its tries."""
    fields = Check()
    job_id = fields.run_id("job_id", request.job_id)
    fields.refuse()
    async with reading(doors.pool, caller.org) as connection:
        row = await read_job(connection, caller.org, job_id)
    if row is None:
        raise job_not_found(job_id)
    answer = GetJobResponse(job=job_message(row))
    refuse_oversized(answer)
    return answer


async def list_jobs(doors: Doors, caller: Caller, request: ListJobsRequest) -> ListJobsResponse:
    """List jobs newest first; a page goes on below the last id of the page before."""
    wanted, size = check(request)
    query = _query(caller, wanted)
    place = doors.tokens.read(query, request.page_token)
    below = UUID(place) if place is not None else None
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_jobs(connection, caller.org, wanted, below=below, limit=size + 1)
    page = fill_page(rows, size, job_message)
    token = doors.tokens.make(query, str(page.last.run_id)) if page.last else ""
    return ListJobsResponse(jobs=page.messages, next_page_token=token)


def check(request: ListJobsRequest) -> tuple[JobFilter, int]:
    """Return the filter and the page size. Raises InvalidArgument with every violation."""
    fields = Check()
    name = fields.text("type", request.type, longest=limits.MAX_NAME)
    status = _status(fields, request.status)
    tags = fields.tags("tags", request.tags)
    first, before = (
        fields.instant(field, _given(request, field))
        for field in ("created_from", "created_before")
    )
    if first and before and first > before:
        fields.add("created_before", "must not lie before created_from")
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    workflow = workflow_of(name) if name else None
    return JobFilter(workflow, status, tags, first, before), size


def _given(request: ListJobsRequest, field: str) -> Timestamp | None:
    return getattr(request, field) if request.HasField(field) else None  # type: ignore[arg-type]


def _status(fields: Check, value: int) -> str | None:
    if value == JOB_STATUS_UNSPECIFIED:
        return None
    if value not in JobStatus.values():
        fields.add("status", f"is no status that this server knows: {value}")
        return None
    return JobStatus.Name(JobStatus.ValueType(value)).removeprefix(_PREFIX).lower()


def _query(caller: Caller, wanted: JobFilter) -> Query:
    return (
        "ListJobs",
        caller.org,
        wanted.workflow,
        wanted.status,
        dict(wanted.tags),
        wanted.created_from,
        wanted.created_before,
    )
