"""WorkflowService.GetMigration."""

from __future__ import annotations

from uuid import UUID

from perdure_contracts.v1.workflow_service_pb2 import GetMigrationRequest, GetMigrationResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.run_migrations import FIRST, read, read_outcomes

from perdure_ingest import limits
from perdure_ingest.doors import Doors, migration_not_found
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.migrations import OUTCOMES, migration_message, run_migration


async def get_migration(
    doors: Doors, caller: Caller, request: GetMigrationRequest
) -> GetMigrationResponse:
    """Read how far a migration came, and a page of its runs."""
    fields = Check()
    migration_id = fields.run_id("migration_id", request.migration_id)
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    words = {number: str(outcome) for outcome, number in OUTCOMES.items()}
    if request.outcome and request.outcome not in words:
        fields.add("outcome", "is none that this version knows")
    fields.refuse()
    outcome = words.get(request.outcome, "")
    query = ("GetMigration", caller.org, str(migration_id), outcome)
    place = doors.tokens.read(query, request.page_token)
    after = UUID(place) if place is not None else FIRST
    async with reading(doors.pool, caller.org) as connection:
        migration = await read(connection, caller.org, migration_id)
        if migration is None:
            raise migration_not_found(migration_id)
        rows = await read_outcomes(connection, migration_id, outcome, after=after, limit=size + 1)
    page = fill_page(rows, size, run_migration)
    token = doors.tokens.make(query, str(page.last[0])) if page.last else ""
    return GetMigrationResponse(
        migration=migration_message(migration), runs=page.messages, next_page_token=token
    )
