"""WorkflowService.ListWorkflows."""

from __future__ import annotations

from perdure_contracts.v1.workflow_service_pb2 import ListWorkflowsRequest, ListWorkflowsResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.pool import Connection
from perdure_store.reads.rows import WorkflowRow
from perdure_store.reads.workflows import list_latest_workflows, list_workflow_versions

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.workflows import workflow_message


async def list_workflows(
    doors: Doors, caller: Caller, request: ListWorkflowsRequest
) -> ListWorkflowsResponse:
    """List the latest version of each name, or all versions of one."""
    fields = Check()
    name = fields.text("name", request.name, longest=limits.MAX_NAME)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListWorkflows", caller.org, name)
    place = doors.tokens.read(query, request.page_token)
    async with reading(doors.pool, caller.org) as connection:
        rows = await _rows(connection, caller.org, name, place, size + 1)
    page = fill_page(rows, size, workflow_message)
    token = doors.tokens.make(query, _place(page.last, name)) if page.last else ""
    return ListWorkflowsResponse(workflows=page.messages, next_page_token=token)


async def _rows(
    connection: Connection, org: str, name: str, place: str | None, limit: int
) -> list[WorkflowRow]:
    if not name:
        return await list_latest_workflows(connection, org, after=place or "", limit=limit)
    below = int(place) if place is not None else None
    return await list_workflow_versions(connection, org, name, below=below, limit=limit)


def _place(last: WorkflowRow, name: str) -> str:
    return str(last.version) if name else last.name
