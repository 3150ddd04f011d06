"""RunService.ListScopes."""

from __future__ import annotations

from perdure_contracts.v1.run_service_pb2 import ListScopesRequest, ListScopesResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.runs import list_scopes as read_scopes
from perdure_store.reads.runs import run_exists

from perdure_ingest import limits
from perdure_ingest.doors import Doors, run_not_found
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.runs import scope_message


async def list_scopes(
    doors: Doors, caller: Caller, request: ListScopesRequest
) -> ListScopesResponse:
    """List the scopes of a step; a page goes on after the last place of the page before."""
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListScopes", caller.org, str(run_id), request.step)
    start = int(doors.tokens.read(query, request.page_token) or 0)
    async with reading(doors.pool, caller.org) as connection:
        if not await run_exists(connection, caller.org, run_id):
            raise run_not_found(run_id)
        rows = await read_scopes(
            connection, caller.org, run_id, request.step, start=start, limit=size + 1
        )
    page = fill_page(rows, size, scope_message)
    token = doors.tokens.make(query, str(page.last.index + 1)) if page.last else ""
    return ListScopesResponse(scopes=page.messages, next_page_token=token)
