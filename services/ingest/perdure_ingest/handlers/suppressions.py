"""ConsentService: suppression lists."""

from __future__ import annotations

import re

from perdure_contracts.internal.v1 import consent_service_pb2 as internal
from perdure_contracts.v1 import consent_service_pb2 as public
from perdure_machine.subjects import EVERY_PURPOSE, MAX_SUBJECT
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.suppressions import FIRST
from perdure_store.suppressions import list_suppressions as read_suppressions

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.suppressions import checked_suppression, listed_suppression

_PURPOSE = re.compile(r"[*]|[a-z][a-z0-9_.-]{0,62}")


async def add_suppression(
    doors: Doors, caller: Caller, request: public.AddSuppressionRequest
) -> public.AddSuppressionResponse:
    """Forbid work about a subject."""
    return public.AddSuppressionResponse(added=await _change(doors, caller, request, remove=False))


async def remove_suppression(
    doors: Doors, caller: Caller, request: public.RemoveSuppressionRequest
) -> public.RemoveSuppressionResponse:
    """Allow what was forbidden."""
    removed = await _change(doors, caller, request, remove=True)
    return public.RemoveSuppressionResponse(removed=removed)


async def check_suppression(
    doors: Doors, caller: Caller, request: public.CheckSuppressionRequest
) -> public.CheckSuppressionResponse:
    """Tell the lists that a subject is on."""
    fields = Check()
    subject = fields.text("subject", request.subject, longest=MAX_SUBJECT, required=True)
    fields.refuse()
    asked = internal.CheckSuppressionRequest(org=caller.org, subject=subject)
    answer = await doors.coordinator.consent.check_suppression(asked)
    return public.CheckSuppressionResponse(suppressions=map(checked_suppression, answer.entries))


async def list_suppressions(
    doors: Doors, caller: Caller, request: public.ListSuppressionsRequest
) -> public.ListSuppressionsResponse:
    """List entries by hash; a page goes on after the last of the page before."""
    fields = Check()
    purpose = _purpose(fields, request.purpose) if request.purpose else ""
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListSuppressions", caller.org, purpose)
    place = doors.tokens.read(query, request.page_token)
    after = (FIRST, "")
    if place is not None:
        digits, _, last = place.partition(" ")
        after = (bytes.fromhex(digits), last)
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_suppressions(connection, caller.org, purpose, after=after, limit=size + 1)
    page = fill_page(rows, size, listed_suppression)
    token = ""
    if page.last:
        token = doors.tokens.make(query, f"{page.last.subject_hash.hex()} {page.last.purpose}")
    return public.ListSuppressionsResponse(suppressions=page.messages, next_page_token=token)


async def _change(
    doors: Doors,
    caller: Caller,
    request: public.AddSuppressionRequest | public.RemoveSuppressionRequest,
    *,
    remove: bool,
) -> bool:
    fields = Check()
    asked = internal.ChangeSuppressionRequest(
        org=caller.org,
        subject=fields.text("subject", request.subject, longest=MAX_SUBJECT, required=True),
        purpose=_purpose(fields, request.purpose or EVERY_PURPOSE),
        remove=remove,
        reason=fields.text("reason", request.reason, longest=limits.MAX_REASON),
        asked_by=caller.actor,
    )
    fields.refuse()
    return (await doors.coordinator.consent.change_suppression(asked)).changed


def _purpose(fields: Check, given: str) -> str:
    if not _PURPOSE.fullmatch(given):
        fields.add("purpose", "must be a letter, then letters, digits, _ . or -; or * for every")
    return given
