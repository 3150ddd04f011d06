"""DeadLetterService.ListDeadLetters."""

from __future__ import annotations

from uuid import UUID

from perdure_contracts.v1.dead_letter_service_pb2 import (
    ListDeadLettersRequest,
    ListDeadLettersResponse,
)
from perdure_runtime.gate.identity import Caller
from perdure_store.dead_letters import DeadLetterFilter
from perdure_store.dead_letters import list_dead_letters as read_dead_letters
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.dead_letters import dead_letter


async def list_dead_letters(
    doors: Doors, caller: Caller, request: ListDeadLettersRequest
) -> ListDeadLettersResponse:
    """List dead letters; a page goes on below the last run of the page before."""
    fields = Check()
    wanted = dead_letter_filter(fields, request.workflow, request.code)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListDeadLetters", caller.org, wanted.workflow, wanted.code)
    place = doors.tokens.read(query, request.page_token)
    below = UUID(place) if place is not None else None
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_dead_letters(connection, caller.org, wanted, below=below, limit=size + 1)
    page = fill_page(rows, size, dead_letter)
    token = doors.tokens.make(query, str(page.last.run_id)) if page.last else ""
    return ListDeadLettersResponse(dead_letters=page.messages, next_page_token=token)


def dead_letter_filter(fields: Check, workflow: str, code: str) -> DeadLetterFilter:
    """Return the filter of a request; what is empty matches all."""
    fields.text("workflow", workflow, longest=limits.MAX_NAME)
    fields.text("code", code, longest=limits.MAX_CODE)
    return DeadLetterFilter(workflow or None, code or None)
