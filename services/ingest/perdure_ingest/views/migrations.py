"""Migrations of runs, and what became of the runs, as messages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

from perdure_contracts.internal.v1.control_service_pb2 import MigratableRun
from perdure_contracts.v1 import migration_pb2
from perdure_machine.migration import MigrationOutcome, Told
from perdure_store.run_migrations import Migration

from perdure_ingest.views.instants import timestamp

OUTCOMES: Mapping[MigrationOutcome, migration_pb2.MigrationOutcome.ValueType] = MappingProxyType(
    {
        MigrationOutcome.PENDING: migration_pb2.MIGRATION_OUTCOME_PENDING,
        MigrationOutcome.MIGRATED: migration_pb2.MIGRATION_OUTCOME_MIGRATED,
        MigrationOutcome.REFUSED: migration_pb2.MIGRATION_OUTCOME_REFUSED,
        MigrationOutcome.ENDED: migration_pb2.MIGRATION_OUTCOME_ENDED,
    }
)


def migration_message(migration: Migration) -> migration_pb2.Migration:
    """Show a migration with its counts."""
    return migration_pb2.Migration(
        migration_id=str(migration.migration_id),
        workflow=migration.workflow,
        from_version=migration.plan.from_version,
        to_version=migration.plan.to_version,
        selected=migration.selected,
        pending=migration.pending,
        migrated=migration.migrated,
        refused=migration.refused,
        ended=migration.ended,
        created_at=timestamp(migration.created_at),
        all_sent_at=timestamp(migration.all_sent_at),
    )


def run_migration(row: tuple[UUID, Told]) -> migration_pb2.RunMigration:
    """Show what became of a run."""
    run_id, told = row
    return migration_pb2.RunMigration(
        run_id=str(run_id),
        outcome=OUTCOMES[told.outcome],
        refusals=[
            migration_pb2.MigrationRefusal(code=one.code, node=one.node, message=one.message)
            for one in told.refusals
        ],
    )


def checked_run(run: MigratableRun) -> migration_pb2.RunMigration:
    """Show what would become of a run."""
    outcome = MigrationOutcome.REFUSED if run.refusals else MigrationOutcome.MIGRATED
    return migration_pb2.RunMigration(
        run_id=run.run_id,
        outcome=OUTCOMES[outcome],
        refusals=[
            migration_pb2.MigrationRefusal(code=one.code, node=one.node, message=one.message)
            for one in run.refusals
        ],
    )
