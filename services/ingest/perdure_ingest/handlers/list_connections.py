"""ConnectionService.ListConnections."""

from __future__ import annotations

from perdure_contracts.v1.connection_service_pb2 import (
    ListConnectionsRequest,
    ListConnectionsResponse,
)
from perdure_runtime.gate.identity import Caller
from perdure_store.connections import list_connections as read_connections
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.connections import connection_message


async def list_connections(
    doors: Doors, caller: Caller, request: ListConnectionsRequest
) -> ListConnectionsResponse:
    """List connections; a page goes on after the last name of the page before."""
    fields = Check()
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListConnections", caller.org)
    after = doors.tokens.read(query, request.page_token) or ""
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_connections(connection, caller.org, after=after, limit=size + 1)
    page = fill_page(rows, size, connection_message)
    token = doors.tokens.make(query, page.last.name) if page.last else ""
    return ListConnectionsResponse(connections=page.messages, next_page_token=token)
