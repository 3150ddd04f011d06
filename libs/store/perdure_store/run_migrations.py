"""Migrations of runs: asked for, sent to their runs some at a time, and read again (R11, p5).

The event that goes on with a migration hangs on the migration's own id, so it is an internal event
like any: it sends the next runs their events and itself its successor, in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
from perdure_machine.decide.legality import Versions
from perdure_machine.decide.migrating import why_not
from perdure_machine.definition.compare import check_map
from perdure_machine.migration import (
    MigrationOutcome,
    Plan,
    Refusal,
    Told,
    decode_plan,
    decode_refusals,
    encode_plan,
)
from perdure_machine.replacing import replace
from perdure_machine.view import View, ViewTooNarrow
from perdure_runtime import fail_points
from perdure_runtime.errors import NotFound, Reason

from perdure_store.apply.batch import MAX_WIDENINGS
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.keys import KeyLocks
from perdure_store.apply.load import load_more
from perdure_store.apply.rows import run_state
from perdure_store.audit import audit
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_MIGRATION = fail_points.declare("store.commit_migration")
COMMIT_MIGRATION_CURSOR = fail_points.declare("store.commit_migration_cursor")

MAX_SENT_AT_ONCE = 500
"""Runs that one event of a migration sends theirs (protocol p5)."""

FIRST = UUID(int=0)
"""Stands before every run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A migration of an org's workflow; `chosen` are the runs it is for, None for all."""

    org: str
    workflow: str
    plan: Plan
    chosen: tuple[UUID, ...] | None


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration: how many runs got their event so far, and what those came to.

    `all_sent_at` is when the last run got it, None before.
    """

    migration_id: UUID
    workflow: str
    plan: Plan
    selected: int
    pending: int
    migrated: int
    refused: int
    ended: int
    created_at: datetime
    all_sent_at: datetime | None


async def resolve(
    connection: Connection, org: str, workflow: str, versions: Sequence[int]
) -> list[int]:
    """Return the ids of versions. Raises `NotFound`, WORKFLOW_NOT_FOUND."""
    count = len(versions)
    rows = await connection.fetch(
        sql("catalogue.resolve"), [org] * count, [workflow] * count, versions
    )
    for row, version in zip(rows, versions, strict=True):
        if row["workflow_id"] is None:
            raise NotFound(
                f"there is no workflow `{workflow}` version {version}",
                reason=Reason.WORKFLOW_NOT_FOUND,
            )
    return [row["workflow_id"] for row in rows]


async def check_plan(connection: Connection, catalogue: Catalogue, plan: Plan) -> None:
    """Refuse a map of nodes that the two versions cannot have. Raises `InvalidArgument`."""
    versions = await _versions(connection, catalogue, plan)
    check_map(plan.nodes, versions.old, versions.new)


async def create(connection: Connection, asked: Asked) -> None:
    """Store a migration and send what begins it; the same id again is the same migration."""
    plan = asked.plan
    async with transaction(connection, COMMIT_MIGRATION):
        added = await connection.fetchval(
            sql("run_migrations.create"),
            plan.migration_id,
            asked.org,
            asked.workflow,
            plan.from_version,
            plan.to_version,
            plan.from_id,
            encode_plan(plan),
            asked.chosen,
        )
        await connection.execute(sql("run_migrations.send_cursor"), plan.migration_id, asked.org)
        if added is not None and plan.asked_by:
            await _audit(connection, asked)


async def _audit(connection: Connection, asked: Asked) -> None:
    """Tell who moves runs; why stands in their histories."""
    plan = asked.plan
    details = {
        "migration_id": str(plan.migration_id),
        "from_version": plan.from_version,
        "to_version": plan.to_version,
    }
    await audit(
        connection,
        org=asked.org,
        actor=plan.asked_by,
        action="workflow.migrate",
        target=asked.workflow,
        details=details,
    )


async def go_on(connection: Connection, org: str, migration_id: UUID, timer_id: int) -> bool:
    """Send the next runs their events, if `timer_id` still is what goes on with the migration.

    Returns False where the org has no such migration: the timer is somebody else's.
    """
    found = await connection.fetchval(sql("run_migrations.is_cursor"), migration_id, org)
    if not found:
        return False
    async with transaction(connection, COMMIT_MIGRATION_CURSOR):
        taken = await connection.fetchrow(sql("run_migrations.take_cursor"), timer_id, migration_id)
        if taken is not None:
            sent = await connection.fetchrow(
                sql("run_migrations.send_next"), migration_id, MAX_SENT_AT_ONCE
            )
            assert sent is not None
            if not sent["ended"]:
                await connection.execute(sql("run_migrations.send_cursor"), migration_id, org)
    return True


async def check_runs(
    connection: Connection, catalogue: Catalogue, asked: Asked, *, after: UUID, limit: int
) -> list[tuple[UUID, tuple[Refusal, ...]]]:
    """Return, for the next runs of a migration, why each would stay; nothing: it would move.

    Locks and changes nothing, so it tells how the runs stood a moment ago.
    """
    versions = await _versions(connection, catalogue, asked.plan)
    rows = await connection.fetch(
        sql("run_migrations.candidates"),
        asked.org,
        asked.plan.from_id,
        after,
        asked.chosen,
        limit,
    )
    run_ids = [row["run_id"] for row in rows]
    return [(one, await _why_not(connection, catalogue, versions, one)) for one in run_ids]


async def read(connection: Connection, org: str, migration_id: UUID) -> Migration | None:
    """Return a migration of the org."""
    row = await connection.fetchrow(sql("run_migrations.read"), migration_id, org)
    return _migration(row) if row is not None else None


async def read_outcomes(
    connection: Connection, migration_id: UUID, outcome: str, *, after: UUID, limit: int
) -> list[tuple[UUID, Told]]:
    """Return what became of the next runs of a migration, of those with `outcome` if not empty."""
    rows = await connection.fetch(
        sql("run_migrations.outcomes"), migration_id, outcome, after, limit
    )
    return [(row["run_id"], _told(row)) for row in rows]


async def _why_not(
    connection: Connection, catalogue: Catalogue, versions: Versions, run_id: UUID
) -> tuple[Refusal, ...]:
    """Return why a run would stay; one at a time is in memory, however large its input is."""
    row = await connection.fetchrow(sql("run_migrations.candidate"), run_id)
    if row is None:
        return ()
    view = View(replace(run_state(row), input=row["input"]))
    for _ in range(MAX_WIDENINGS):
        try:
            return why_not(versions, catalogue.lanes, view)
        except ViewTooNarrow as narrow:
            more = await load_more(connection, view.run, narrow.wanted, KeyLocks(connection))
            view = more.added_to(view)
    raise RuntimeError(f"the check of run {view.run.run_id} asked for more {MAX_WIDENINGS} times")


async def _versions(connection: Connection, catalogue: Catalogue, plan: Plan) -> Versions:
    async def learned() -> Versions:
        found = catalogue.definitions({plan.from_id, plan.to_id})
        return Versions(found[plan.from_id], found[plan.to_id], plan)

    return await catalogue.complete(connection, learned)


def _migration(row: asyncpg.Record) -> Migration:
    return Migration(
        migration_id=row["migration_id"],
        workflow=row["workflow"],
        plan=decode_plan(row["plan"]),
        selected=row["selected"],
        pending=row["pending"],
        migrated=row["migrated"],
        refused=row["refused"],
        ended=row["ended"],
        created_at=row["created_at"],
        all_sent_at=row["ended_at"],
    )


def _told(row: asyncpg.Record) -> Told:
    refusals = row["refusals"]
    return Told(
        MigrationOutcome(row["outcome"]), decode_refusals(refusals) if refusals is not None else ()
    )
