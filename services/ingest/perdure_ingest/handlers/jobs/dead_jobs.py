"""JobService.ListDeadJobs and ReplayDeadJobs: the dead letters that are jobs."""

from __future__ import annotations

from uuid import UUID

from perdure_contracts.v1.job_service_pb2 import (
    ListDeadJobsRequest,
    ListDeadJobsResponse,
    ReplayDeadJobsRequest,
    ReplayDeadJobsResponse,
)
from perdure_machine.job_types import workflow_of
from perdure_runtime.gate.identity import Caller
from perdure_store.dead_letters import DeadLetterFilter, list_dead_letters
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.replay_dead_letters import replay
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.jobs import dead_job


async def list_dead_jobs(
    doors: Doors, caller: Caller, request: ListDeadJobsRequest
) -> ListDeadJobsResponse:
    """List dead jobs; a page goes on below the last of the page before."""
    fields = Check()
    wanted = _filter(fields, request.type, request.code)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListDeadJobs", caller.org, wanted.workflow, wanted.code)
    place = doors.tokens.read(query, request.page_token)
    below = UUID(place) if place is not None else None
    async with reading(doors.pool, caller.org) as connection:
        rows = await list_dead_letters(connection, caller.org, wanted, below=below, limit=size + 1)
    page = fill_page(rows, size, dead_job)
    token = doors.tokens.make(query, str(page.last.run_id)) if page.last else ""
    return ListDeadJobsResponse(dead_jobs=page.messages, next_page_token=token)


async def replay_dead_jobs(
    doors: Doors, caller: Caller, request: ReplayDeadJobsRequest
) -> ReplayDeadJobsResponse:
    """Have what matches now replayed."""
    fields = Check()
    wanted = _filter(fields, request.type, request.code)
    answer = await replay(doors, caller, fields, wanted, request)
    return ReplayDeadJobsResponse(replayed=answer.replayed, more=answer.more)


def _filter(fields: Check, name: str, code: str) -> DeadLetterFilter:
    fields.text("type", name, longest=limits.MAX_NAME)
    fields.text("code", code, longest=limits.MAX_CODE)
    return DeadLetterFilter(workflow_of(name) if name else None, code or None, jobs_only=True)
