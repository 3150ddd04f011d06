"""ConsentService: erasures."""

from __future__ import annotations

import re
from uuid import UUID, uuid4

from perdure_contracts.internal.v1 import consent_service_pb2 as internal
from perdure_contracts.v1 import consent_service_pb2 as public
from perdure_machine.subjects import MAX_SUBJECT
from perdure_runtime.errors import NotFound, Reason
from perdure_runtime.gate.identity import Caller
from perdure_store import erasures
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.erasures import erasure_message

_HASH = re.compile(r"[0-9a-f]{64}")


async def erase_subject(
    doors: Doors, caller: Caller, request: public.EraseSubjectRequest
) -> public.EraseSubjectResponse:
    """Begin an erasure, or tell what it would come to."""
    asked = _checked(caller, request)
    answer = await doors.coordinator.consent.erase_subject(asked)
    if request.dry_run:
        preview = public.ErasurePreview(
            runs=answer.runs,
            unfinished=answer.unfinished,
            erased_before=answer.erased_before,
            steps=answer.steps,
        )
        return public.EraseSubjectResponse(preview=preview)
    begun = await _read(doors, caller, UUID(asked.erasure_id))
    return public.EraseSubjectResponse(erasure=begun)


async def get_erasure(
    doors: Doors, caller: Caller, request: public.GetErasureRequest
) -> public.GetErasureResponse:
    """Read how far an erasure came."""
    fields = Check()
    erasure_id = fields.run_id("erasure_id", request.erasure_id)
    fields.refuse()
    return public.GetErasureResponse(erasure=await _read(doors, caller, erasure_id))


async def list_erasures(
    doors: Doors, caller: Caller, request: public.ListErasuresRequest
) -> public.ListErasuresResponse:
    """List erasures; a page goes on after the last of the page before."""
    fields = Check()
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListErasures", caller.org)
    place = doors.tokens.read(query, request.page_token)
    after = UUID(place) if place is not None else erasures.FIRST
    async with reading(doors.pool, caller.org) as connection:
        rows = await erasures.list_erasures(connection, caller.org, after=after, limit=size + 1)
    page = fill_page(rows, size, erasure_message)
    token = doors.tokens.make(query, str(page.last.erasure_id)) if page.last else ""
    return public.ListErasuresResponse(erasures=page.messages, next_page_token=token)


async def _read(doors: Doors, caller: Caller, erasure_id: UUID) -> public.Erasure:
    async with reading(doors.pool, caller.org) as connection:
        found = await erasures.read(connection, caller.org, erasure_id)
    if found is None:
        raise NotFound(
            f"there is no erasure {erasure_id}",
            reason=Reason.ERASURE_NOT_FOUND,
            metadata={"erasure_id": str(erasure_id)},
        )
    return erasure_message(found)


def _checked(caller: Caller, request: public.EraseSubjectRequest) -> internal.EraseSubjectRequest:
    fields = Check()
    if bool(request.subject) == bool(request.subject_hash):
        fields.add("subject", "is required, or else subject_hash")
    subject = fields.text("subject", request.subject, longest=MAX_SUBJECT)
    digits = request.subject_hash
    if digits and not _HASH.fullmatch(digits):
        fields.add("subject_hash", "is not 64 hexadecimal digits")
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    given = request.erasure_id
    erasure_id = fields.run_id("erasure_id", given) if given else uuid4()
    fields.refuse()
    return internal.EraseSubjectRequest(
        org=caller.org,
        erasure_id="" if request.dry_run else str(erasure_id),
        subject=subject,
        subject_hash=bytes.fromhex(digits),
        reason=reason,
        asked_by=caller.actor,
        dry_run=request.dry_run,
    )
