"""RunService.ListRuns."""

from __future__ import annotations

from uuid import UUID

from perdure_contracts.v1.run_pb2 import RUN_STATUS_UNSPECIFIED, RunStatus
from perdure_contracts.v1.run_service_pb2 import ListRunsRequest, ListRunsResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.runs import RunFilter
from perdure_store.reads.runs import list_runs as read_runs

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.page_tokens import Query
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.runs import listed_run

_PREFIX = "RUN_STATUS_"


async def list_runs(doors: Doors, caller: Caller, request: ListRunsRequest) -> ListRunsResponse:
    """List runs newest first; a page goes on below the last id of the page before."""
    wanted, size = check(request)
    query = _query(caller, wanted)
    place = doors.tokens.read(query, request.page_token)
    below = UUID(place) if place is not None else None
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_runs(connection, caller.org, wanted, below=below, limit=size + 1)
    page = fill_page(rows, size, listed_run)
    token = doors.tokens.make(query, str(page.last.run_id)) if page.last else ""
    return ListRunsResponse(runs=page.messages, next_page_token=token)


def check(request: ListRunsRequest) -> tuple[RunFilter, int]:
    """Return the filter and the page size. Raises InvalidArgument with every violation."""
    fields = Check()
    workflow = fields.text("workflow", request.workflow, longest=limits.MAX_NAME)
    status = _status(fields, request.status)
    tags = fields.tags("tags", request.tags)
    created_from = fields.instant(
        "created_from", request.created_from if request.HasField("created_from") else None
    )
    created_before = fields.instant(
        "created_before", request.created_before if request.HasField("created_before") else None
    )
    if created_from and created_before and created_from > created_before:
        fields.add("created_before", "must not lie before created_from")
    parent = (
        fields.run_id("parent_run_id", request.parent_run_id) if request.parent_run_id else None
    )
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    wanted = RunFilter(
        workflow or None,
        status,
        tags,
        created_from,
        created_before,
        parent,
        request.paused if request.HasField("paused") else None,
        request.compensating if request.HasField("compensating") else None,
    )
    return wanted, size


def _status(fields: Check, value: int) -> str | None:
    if value == RUN_STATUS_UNSPECIFIED:
        return None
    if value not in RunStatus.values():
        fields.add("status", f"is no status that this server knows: {value}")
        return None
    return RunStatus.Name(RunStatus.ValueType(value)).removeprefix(_PREFIX).lower()


def _query(caller: Caller, wanted: RunFilter) -> Query:
    return (
        "ListRuns",
        caller.org,
        wanted.workflow,
        wanted.status,
        dict(wanted.tags),
        wanted.created_from,
        wanted.created_before,
        str(wanted.parent or ""),
        wanted.paused,
        wanted.compensating,
    )
