"""JobService.GetJobType and ListJobTypes."""

from __future__ import annotations

from perdure_contracts.v1.job_service_pb2 import (
    GetJobTypeRequest,
    GetJobTypeResponse,
    ListJobTypesRequest,
    ListJobTypesResponse,
)
from perdure_machine.job_types import workflow_of
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.jobs import list_job_types as read_job_types
from perdure_store.reads.workflows import read_workflow

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.jobs.refusals import job_type_not_found
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.jobs import job_type_message


async def get_job_type(
    doors: Doors, caller: Caller, request: GetJobTypeRequest
) -> GetJobTypeResponse:
    """Read a version of a job type."""
    fields = Check()
    name = fields.text("name", request.name, longest=limits.MAX_NAME, required=True)
    version = fields.version("version", request.version)
    fields.refuse()
    async with reading(doors.pool, caller.org) as connection:
        row = await read_workflow(connection, caller.org, workflow_of(name), version)
    if row is None:
        raise job_type_not_found(name, version)
    return GetJobTypeResponse(job_type=job_type_message(row))


async def list_job_types(
    doors: Doors, caller: Caller, request: ListJobTypesRequest
) -> ListJobTypesResponse:
    """List job types; a page goes on after the last name of the page before."""
    fields = Check()
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListJobTypes", caller.org)
    after = doors.tokens.read(query, request.page_token) or ""
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_job_types(connection, caller.org, after=after, limit=size + 1)
    page = fill_page(rows, size, job_type_message)
    token = doors.tokens.make(query, page.last.name) if page.last else ""
    return ListJobTypesResponse(job_types=page.messages, next_page_token=token)
