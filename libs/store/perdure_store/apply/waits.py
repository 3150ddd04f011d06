"""Waits that plainly end their runs: read without a lock, proved and written by one statement (P4).

What was read need not be true any more: the statement writes only where the run's revision is still
the one that was read, and the timer is due (R7). What is not proved goes the way of every event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

import asyncpg
import msgspec
from perdure_machine.decide.last_wait import LastWait, last_wait
from perdure_machine.events import FireTimer
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.view import StepState, TimerState

from perdure_store.apply.batch import RunEvents
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.hand_overs import WRITTEN
from perdure_store.apply.monthly import MonthlyStatement
from perdure_store.apply.rows import run_state
from perdure_store.apply.rowsets import Given, Row, RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

LOAD = Statement(sql("plain.load_waits"), [RowSet.of("due", "timer_id bigint")], given=Given.HIDDEN)
END = MonthlyStatement(
    sql("plain.end_waits"),
    RowSet.of(
        "waited",
        "run_id uuid, before bigint, step integer, timer_id bigint, output bytea,"
        "run_output bytea, details bytea",
    ),
    {"retention": "float8"},
)

_encode = msgspec.json.Encoder().encode


async def decide_waits(
    connection: Connection, catalogue: Catalogue, batch: Sequence[RunEvents]
) -> dict[UUID, LastWait]:
    """Return which timers of a batch plainly end their runs, by run."""
    asked = {one.run_id: one.events[0] for one in batch if len(one.events) == 1}
    due = [(sent.event.timer_id,) for sent in asked.values() if isinstance(sent.event, FireTimer)]
    decided = {}
    for row in await connection.fetch(LOAD.text, *LOAD.arguments({"due": due})):
        sent = asked.get(row["run_id"])
        if sent is not None and sent.org == row["org"]:
            found = _decided(catalogue, row)
            if found is not None:
                decided[row["run_id"]] = found
    return decided


def _decided(catalogue: Catalogue, row: asyncpg.Record) -> LastWait | None:
    definition = catalogue.known(row["workflow_id"])
    if definition is None:
        return None
    step = StepState(
        step=row["step"],
        node=row["node"],
        kind=row["kind"],
        status=StepStatus(row["step_status"]),
        stopping=row["stopping"],
        undecided=row["undecided"],
        compensates=row["compensates"],
    )
    timer = TimerState(row["timer_id"], TimerKind.WAIT, step.step, 0, 0.0)
    return last_wait(definition, run_state(row), step, timer)


async def write_waits(
    connection: Connection, decided: Collection[LastWait], *, retention: float
) -> set[UUID]:
    """Write those that their runs and timers prove, and return these runs.

    `retention` is how long a start key outlives its run, in seconds.
    """
    if not decided:
        return set()
    rows = await END.write(connection, WRITTEN, map(_row, decided), retention=retention)
    return {row["run_id"] for row in rows}


def _row(one: LastWait) -> Row:
    run, step = one.run, one.ended
    return (
        run.run_id, run.revision - 1, step.step, one.timer_id, step.output, run.output,
        _encode({"node": step.node}),
    )  # fmt: skip
