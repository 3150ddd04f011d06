"""Writes what migrations changed of runs: their version, the names of their steps, what came of it.

The write of the run's own row, which follows, guards all of it: the row is locked (R1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure_machine.changes import Changes
from perdure_machine.migration import encode_refusals

from perdure_store.apply.rowsets import Row, RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

_MOVED_STEPS = RowSet.of("moved_steps", "run_id uuid, step integer, node text, taken text")

PART_NAMES = Statement(sql("run_migrations.part_names"), [_MOVED_STEPS])
MOVE = Statement(
    sql("run_migrations.move"),
    [
        _MOVED_STEPS,
        RowSet.of(
            "moved_runs", "run_id uuid, workflow_id bigint, workflow_version integer, input bytea"
        ),
        RowSet.of("outcomes", "migration_id uuid, run_id uuid, outcome text, refusals bytea"),
    ],
)


async def write_moves(connection: Connection, changes: Sequence[Changes]) -> None:
    """Write what migrations did, where any did something."""
    if not any(one.migrations for one in changes):
        return
    renamed = list(_moved_steps(changes))
    if renamed:
        rows = {"moved_steps": renamed}
        await connection.execute(PART_NAMES.text, *PART_NAMES.arguments(rows))
    rows_of_all = {
        "moved_steps": renamed,
        "moved_runs": _moved_runs(changes),
        "outcomes": _outcomes(changes),
    }
    await connection.execute(MOVE.text, *MOVE.arguments(rows_of_all))


def _moved_steps(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        for step in one.renamed:
            taken = None if step.taken is None else " ".join(step.taken)
            yield one.run.run.run_id, step.step, step.node, taken


def _moved_runs(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        if one.moved is not None:
            run = one.run.run
            yield run.run_id, run.workflow_id, run.workflow_version, one.moved.input


def _outcomes(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        for record in one.migrations:
            told = record.told
            refusals = encode_refusals(told.refusals) if told.refusals else None
            yield record.migration_id, one.run.run.run_id, told.outcome, refusals
