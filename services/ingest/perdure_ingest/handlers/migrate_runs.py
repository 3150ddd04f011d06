"""WorkflowService.MigrateRuns."""

from __future__ import annotations

from types import MappingProxyType
from uuid import UUID, uuid4

from perdure_contracts.internal.v1 import control_service_pb2
from perdure_contracts.v1 import migration_pb2
from perdure_contracts.v1.workflow_service_pb2 import MigrateRunsRequest, MigrateRunsResponse
from perdure_machine.migration import OnPassed, OnRemoved
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.run_migrations import read

from perdure_ingest import limits
from perdure_ingest.doors import Doors, migration_not_found
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.migrations import checked_run, migration_message

ON_REMOVED = MappingProxyType(
    {
        migration_pb2.REMOVED_NODE_RULE_UNSPECIFIED: OnRemoved.REFUSE,
        migration_pb2.REMOVED_NODE_RULE_REFUSE: OnRemoved.REFUSE,
        migration_pb2.REMOVED_NODE_RULE_CANCEL: OnRemoved.CANCEL,
    }
)
ON_PASSED = MappingProxyType(
    {
        migration_pb2.PASSED_NODE_RULE_UNSPECIFIED: OnPassed.REFUSE,
        migration_pb2.PASSED_NODE_RULE_REFUSE: OnPassed.REFUSE,
        migration_pb2.PASSED_NODE_RULE_SKIP: OnPassed.SKIP,
        migration_pb2.PASSED_NODE_RULE_RUN: OnPassed.RUN,
    }
)


async def migrate_runs(
    doors: Doors, caller: Caller, request: MigrateRunsRequest
) -> MigrateRunsResponse:
    """Begin to move runs, or tell what that would do to the next of them."""
    asked = _checked(caller, request)
    if request.dry_run:
        return await _dry_run(doors, asked, request)
    await doors.coordinator.migrate_runs(asked)
    migration_id = UUID(asked.migration_id)
    async with reading(doors.pool, caller.org) as connection:
        migration = await read(connection, caller.org, migration_id)
    if migration is None:
        raise migration_not_found(migration_id)
    return MigrateRunsResponse(migration=migration_message(migration))


async def _dry_run(
    doors: Doors, asked: control_service_pb2.MigrateRunsRequest, request: MigrateRunsRequest
) -> MigrateRunsResponse:
    size = min(request.page_size or limits.MAX_DRY_RUN, limits.MAX_DRY_RUN)
    query = (
        "MigrateRuns", asked.org, asked.workflow, asked.from_version, asked.to_version,
        dict(asked.nodes), asked.on_removed, asked.on_passed, " ".join(asked.run_ids),
    )  # fmt: skip
    asked.dry_run = True
    asked.limit = size + 1
    asked.after_run_id = doors.tokens.read(query, request.page_token) or ""
    found = await doors.coordinator.migrate_runs(asked)
    page = fill_page(found.runs, size, checked_run)
    token = doors.tokens.make(query, page.last.run_id) if page.last else ""
    return MigrateRunsResponse(runs=page.messages, next_page_token=token)


def _checked(caller: Caller, request: MigrateRunsRequest) -> control_service_pb2.MigrateRunsRequest:
    fields = Check()
    workflow = fields.text("workflow", request.workflow, longest=limits.MAX_NAME, required=True)
    for field in ("from_version", "to_version"):
        fields.number(field, getattr(request, field), least=1, most=limits.MAX_VERSION)
    if request.from_version == request.to_version:
        fields.add("to_version", "must be another version than from_version")
    if request.page_size < 0:
        fields.add("page_size", "must not be negative")
    if request.on_removed not in ON_REMOVED:
        fields.add("on_removed", "is no rule that this version knows")
    if request.on_passed not in ON_PASSED:
        fields.add("on_passed", "is no rule that this version knows")
    run_ids = _run_ids(fields, request)
    _check_nodes(fields, request)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    given = request.migration_id
    migration_id = fields.run_id("migration_id", given) if given else uuid4()
    fields.refuse()
    return control_service_pb2.MigrateRunsRequest(
        org=caller.org,
        migration_id=str(migration_id),
        workflow=workflow,
        from_version=request.from_version,
        to_version=request.to_version,
        nodes=request.nodes,
        on_removed=ON_REMOVED[request.on_removed],
        on_passed=ON_PASSED[request.on_passed],
        run_ids=run_ids,
        reason=reason,
        asked_by=caller.actor,
    )


def _check_nodes(fields: Check, request: MigrateRunsRequest) -> None:
    if len(request.nodes) > limits.MAX_NODES:
        fields.add("nodes", f"has more than {limits.MAX_NODES} entries")
    for old, new in sorted(request.nodes.items())[: limits.MAX_NODES]:
        for node in (old, new):
            fields.text(f"nodes[{old[: limits.MAX_NODE]!r}]", node, longest=limits.MAX_NODE)


def _run_ids(fields: Check, request: MigrateRunsRequest) -> list[str]:
    count = len(request.run_ids)
    if count > limits.MAX_RUN_IDS:
        fields.add("run_ids", f"has {count} entries; at most {limits.MAX_RUN_IDS} are allowed")
    ids = [fields.run_id(f"run_ids[{place}]", one) for place, one in enumerate(request.run_ids)]
    return [str(one) for one in ids]
