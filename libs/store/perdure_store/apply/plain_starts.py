"""The starts that begin with one queued step and nothing else, written by a statement of their own.

The one that writes any batch has a column for all that a run may be, most of which these leave as
it is made; it is encoded, sent and read for each run all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from perdure_machine.changes import Changes
from perdure_machine.slots import job_of, slot_of
from perdure_machine.states import RunLimit

from perdure_store.apply.monthly import MonthlyStatement
from perdure_store.apply.rowsets import Row, RowSet
from perdure_store.pool import Connection
from perdure_store.sql import sql

START = MonthlyStatement(
    sql("plain.start"),
    RowSet.of(
        "begun",
        "run_id uuid, org text, workflow_id bigint, workflow text, workflow_version integer,"
        "priority smallint, input bytea, start_key text, traceparent text, age float8,"
        "node text, lane text, step_priority smallint, step_input bytea, slot smallint,"
        "job integer, details bytea",
    ),
)

_encode = msgspec.json.Encoder().encode


def is_written_plainly(start: Changes) -> bool:
    """Tell of what `start_plainly` returned whether this statement has all that it needs."""
    run = start.run.run
    return run.parent is None and not run.tags


async def write_plain_starts(connection: Connection, starts: Sequence[Changes]) -> int:
    """Write runs, steps, history and outbox rows; return the database's time in ms since 1970."""
    now_ms = 0
    for text, arguments in START.queries(map(_row, starts)):
        now_ms = await connection.fetchval(text, *arguments)
    return now_ms


def _row(start: Changes) -> Row:
    run, (step,) = start.run.run, start.enqueue
    return (
        run.run_id, run.org, run.workflow_id, run.workflow, run.workflow_version, run.priority,
        run.input, run.start_key, run.traceparent, start.run.limits.get(RunLimit.AGE),
        step.node, step.lane, step.priority, step.input, slot_of(run.run_id, step.step),
        job_of(run.workflow), _encode({"node": step.node}),
    )  # fmt: skip
