"""EffectService.ListEffects."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from uuid import UUID

from perdure_contracts.v1.effect_service_pb2 import ListEffectsRequest, ListEffectsResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.effects import (
    FIRST,
    EffectEntryRow,
    EffectFilter,
    EffectPlace,
    list_unsettled,
)

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.effects import effect_entry

STATUSES = ("in_flight", "outcome_unknown", "needs_review")
KINDS = ("provider", "reconcile", "none")


async def list_effects(
    doors: Doors, caller: Caller, request: ListEffectsRequest
) -> ListEffectsResponse:
    """List effects that are not settled; a page goes on after the last of the page before."""
    fields = Check()
    wanted = _filter(fields, request)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListEffects", caller.org, wanted)
    after = _to_place(doors.tokens.read(query, request.page_token))
    async with reading(doors.pool, caller.org) as connection:
        rows = await list_unsettled(connection, caller.org, wanted, after=after, limit=size + 1)
    page = fill_page(rows, size, effect_entry)
    token = doors.tokens.make(query, _from_row(page.last)) if page.last else ""
    return ListEffectsResponse(effects=page.messages, next_page_token=token)


def _filter(fields: Check, request: ListEffectsRequest) -> EffectFilter:
    run_id = fields.run_id("run_id", request.run_id) if request.run_id else None
    status = fields.one_of("status", request.status, STATUSES)
    kind = fields.one_of("kind", request.kind, KINDS)
    asked = request.older_than if request.HasField("older_than") else None
    seconds = fields.duration("older_than", asked)
    older_than = None if seconds is None else timedelta(seconds=seconds)
    return EffectFilter(run_id, status or None, kind or None, older_than)


def _from_row(row: EffectEntryRow) -> str:
    return json.dumps([row.begun_at.isoformat(), str(row.run_id), row.key])


def _to_place(place: str | None) -> EffectPlace:
    if place is None:
        return FIRST
    begun_at, run_id, key = json.loads(place)
    return EffectPlace(datetime.fromisoformat(begun_at), UUID(run_id), key)
