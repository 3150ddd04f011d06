"""Writes what pauses, endings and people change of a run's standing; only where there is any."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_machine.changes import Changes
from perdure_machine.view import RunState

from perdure_store.apply.rowsets import RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

_WRITE = Statement(
    sql("standing.write"),
    [
        RowSet.of(
            "standings",
            "run_id uuid, paused boolean, pauses integer, dead_lettered boolean, recounted integer,"
            "ending text, undo_below integer, compensations integer, uncompensated integer,"
            "erased boolean, has_effects boolean, output bytea",
        )
    ],
)

_AT_FIRST = (False, 0, False, 0, None, 0, 0, 0, False, False)
"""The standing of a new run."""


async def write_standing(connection: Connection, changes: Sequence[Changes]) -> None:
    """Write the standing of runs, and which of their timers are held or let go."""
    rows = [
        (c.run.run.run_id, *_standing(c.run.run), c.run.run.output)
        for c in changes
        if _standing(c.run.run) != (_AT_FIRST if c.before is None else _standing(c.before.run))
    ]
    if rows:
        await connection.execute(_WRITE.text, *_WRITE.arguments({"standings": rows}))
    let_go = [(c.run.run.run_id, step) for c in changes for step in c.let_timers_go]
    if let_go:
        runs, steps = zip(*let_go, strict=True)
        await connection.execute(sql("standing.let_timers_go"), runs, steps)
    held = [timer_id for c in changes for timer_id in c.hold_timers]
    if held:
        await connection.execute(sql("standing.hold_timers"), held)


def _standing(run: RunState) -> tuple[object, ...]:
    return (
        run.paused, run.pauses, run.dead_lettered, run.recounted, run.ending, run.undo_below,
        run.compensations, run.uncompensated, run.erased, run.has_effects,
    )  # fmt: skip
