"""AuditService: who did what."""

from __future__ import annotations

from perdure_contracts.v1 import audit_service_pb2 as public
from perdure_runtime.gate.identity import Caller
from perdure_store.audit import NEWEST, read_audit
from perdure_store.org_reads import reading
from perdure_store.pool import acquire

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.keys import audit_message


async def list_audit(
    doors: Doors, caller: Caller, request: public.ListAuditRequest
) -> public.ListAuditResponse:
    """Read what was done for the caller's org."""
    return await _page(doors, caller.org, request)


async def list_installation_audit(
    doors: Doors, request: public.ListInstallationAuditRequest
) -> public.ListInstallationAuditResponse:
    """Read what was done to what all orgs share."""
    found = await _page(doors, None, request)
    return public.ListInstallationAuditResponse(
        entries=found.entries, next_page_token=found.next_page_token
    )


async def _page(
    doors: Doors,
    org: str | None,
    request: public.ListAuditRequest | public.ListInstallationAuditRequest,
) -> public.ListAuditResponse:
    fields = Check()
    action = fields.text("action", request.action, longest=limits.MAX_NAME)
    target = fields.text("target", request.target, longest=limits.MAX_NAME)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListAudit", org, action, target)
    place = doors.tokens.read(query, request.page_token)
    below = int(place) if place is not None else NEWEST
    async with acquire(doors.pool) if org is None else reading(doors.pool, org) as connection:
        rows = await read_audit(
            connection, org, action=action, target=target, below=below, limit=size + 1
        )
    page = fill_page(rows, size, audit_message)
    token = doors.tokens.make(query, str(page.last.audit_id)) if page.last else ""
    return public.ListAuditResponse(entries=page.messages, next_page_token=token)
