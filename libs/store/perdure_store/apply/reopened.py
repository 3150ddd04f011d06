"""Writes what a retry opens again: runs, and the steps in them that begin anew; rarely any."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from uuid import UUID

from perdure_machine.changes import Changes
from perdure_runtime.errors import FailedPrecondition, Reason

from perdure_store.apply.rowsets import RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

_BEGIN = Statement(
    sql("reopened.begin_steps"),
    [
        RowSet.of(
            "begun",
            "run_id uuid, step integer, kind text, lane text, owner text, priority smallint,"
            "effect_prefix text, input bytea, traceparent text",
        )
    ],
)


async def write_reopened(connection: Connection, changes: Sequence[Changes]) -> None:
    """Open runs and begin steps again.

    Raises `FailedPrecondition`, MONTH_CLOSED, for a run whose month is about to be dropped.
    """
    runs = [c for c in changes if c.run.reopened]
    if runs:
        await _open(connection, runs)
    begun = [
        (
            c.run.run.run_id, s.put.step.step, s.put.step.kind, s.put.step.lane, s.put.step.owner,
            s.put.step.priority, s.put.step.effect_prefix, s.put.step.input,
            s.put.step.traceparent,
        )
        for c in changes
        for s in c.steps
        if s.begins_again
    ]  # fmt: skip
    if begun:
        await connection.execute(_BEGIN.text, *_BEGIN.arguments({"begun": begun}))


async def _open(connection: Connection, changes: Sequence[Changes]) -> None:
    months = {month_of(c.run.run.run_id) for c in changes}
    held = await connection.fetch(sql("reopened.hold_months"), sorted(months))
    if len(held) < len(months):
        raise FailedPrecondition(
            "the month of the run is closed and about to be removed", reason=Reason.MONTH_CLOSED
        )
    await connection.execute(sql("reopened.open"), sorted(c.run.run.run_id for c in changes))
    keys = [(run.org, run.start_key, run.run_id) for run in (c.run.run for c in changes)]
    await connection.execute(sql("reopened.keep_keys"), *zip(*keys, strict=True))


def month_of(run_id: UUID) -> date:
    """Return the first day of the month whose partitions hold the run, by the time in its id."""
    made = datetime.fromtimestamp((run_id.int >> 80) / 1000, UTC)
    return date(made.year, made.month, 1)
