"""MigrateRuns: begins to move runs to another version, or tells what that would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import (
    MigratableRun,
    MigrateRunsRequest,
    MigrateRunsResponse,
    MigrationRefusal,
)
from perdure_machine.migration import OnPassed, OnRemoved, Plan, Refusal
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_store.apply.catalogue import Catalogue
from perdure_store.pool import Connection, acquire
from perdure_store.run_migrations import (
    FIRST,
    Asked,
    check_plan,
    check_runs,
    create,
    resolve,
)

from perdure_coordinator.messages import parse_uuid

Rule = TypeVar("Rule", OnRemoved, OnPassed)


async def migrate_runs(
    spare: asyncpg.Pool, catalogue: Catalogue, request: MigrateRunsRequest
) -> MigrateRunsResponse:
    """Check the plan, then store the migration, or look at a page of its runs."""
    async with acquire(spare) as connection:
        asked = await _asked(connection, request)
        await check_plan(connection, catalogue, asked.plan)
        if not request.dry_run:
            await create(connection, asked)
            return MigrateRunsResponse()
        after = parse_uuid(request.after_run_id, "after_run_id") if request.after_run_id else FIRST
        found = await check_runs(connection, catalogue, asked, after=after, limit=request.limit)
    return MigrateRunsResponse(runs=[_run(*one) for one in found])


async def _asked(connection: Connection, request: MigrateRunsRequest) -> Asked:
    numbers = [request.from_version, request.to_version]
    from_id, to_id = await resolve(connection, request.org, request.workflow, numbers)
    plan = Plan(
        migration_id=parse_uuid(request.migration_id, "migration_id"),
        from_id=from_id,
        from_version=request.from_version,
        to_id=to_id,
        to_version=request.to_version,
        nodes=dict(request.nodes),
        on_removed=_rule(OnRemoved, request.on_removed, "on_removed"),
        on_passed=_rule(OnPassed, request.on_passed, "on_passed"),
        reason=request.reason,
        asked_by=request.asked_by,
    )
    chosen = tuple(parse_uuid(one, "run_ids") for one in request.run_ids)
    return Asked(request.org, request.workflow, plan, chosen or None)


def _rule(rules: type[Rule], given: str, field: str) -> Rule:
    try:
        return rules(given)
    except ValueError:
        problem = f"is none of {', '.join(rules)}"
        raise InvalidArgument(
            f"{field} {problem}",
            reason=Reason.FIELD_INVALID,
            violations=[FieldViolation(field, problem)],
        ) from None


def _run(run_id: UUID, refusals: Sequence[Refusal]) -> MigratableRun:
    return MigratableRun(
        run_id=str(run_id),
        refusals=[
            MigrationRefusal(code=one.code, node=one.node, message=one.message) for one in refusals
        ],
    )
