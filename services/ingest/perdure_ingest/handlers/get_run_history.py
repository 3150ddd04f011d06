"""RunService.GetRunHistory."""

from __future__ import annotations

from perdure_contracts.v1.run_service_pb2 import GetRunHistoryRequest, GetRunHistoryResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.runs import read_history, run_exists

from perdure_ingest import limits
from perdure_ingest.doors import Doors, run_not_found
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.history import history_event


async def get_run_history(
    doors: Doors, caller: Caller, request: GetRunHistoryRequest
) -> GetRunHistoryResponse:
    """Read what happened, oldest first; a page goes on after the last number of the page before."""
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_HISTORY_PAGE)
    fields.refuse()
    query = ("GetRunHistory", caller.org, str(run_id))
    place = doors.tokens.read(query, request.page_token)
    async with reading(doors.pool, caller.org) as connection:
        if not await run_exists(connection, caller.org, run_id):
            raise run_not_found(run_id)
        rows = await read_history(connection, run_id, after=int(place or 0), limit=size + 1)
    page = fill_page(rows, size, history_event)
    token = doors.tokens.make(query, str(page.last.seq)) if page.last else ""
    return GetRunHistoryResponse(events=page.messages, next_page_token=token)
