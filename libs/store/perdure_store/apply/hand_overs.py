"""Remembered runs, and hand-overs on them: proved and written by one statement (P4).

What a process wrote last of a run is enough to decide on the report of the step that it leased: the
statement writes only where the run's revision is still the one remembered. All else, and whatever
is not proved, goes the way of every event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from uuid import UUID

import msgspec
from perdure_machine.decide.hand_over import HandOver
from perdure_machine.replacing import replace
from perdure_machine.states import StepStatus
from perdure_machine.view import RunState, StepState
from perdure_runtime import fail_points

from perdure_store.apply.monthly import MonthlyStatement
from perdure_store.apply.rowsets import Row, RowSet
from perdure_store.pool import Connection
from perdure_store.sql import sql

WRITTEN = fail_points.declare("store.write_hand_overs")

MAX_KEPT_PAYLOAD = 4096
"""Bytes of an input up to which it is remembered."""

WRITE_HAND_OVERS = MonthlyStatement(
    sql("hand_overs.write"),
    RowSet.of(
        "handed",
        "run_id uuid, before bigint, step integer, output bytea, node text, lane text,"
        "priority smallint, lease_id uuid, worker text, lease_for float8, try_for float8,"
        "effect_prefix text, input bytea, ended_details bytea, begun_details bytea",
    ),
)

_encode = msgspec.json.Encoder().encode

Known = tuple[RunState, StepState]
"""A run, and the step of it that is leased, or that is the first and queued."""


class RememberedRuns:
    """Runs as their last write by this process left them, with the step that it leased or queued.

    Of at most `capacity` runs; those that were not written for longest are forgotten first.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._runs: OrderedDict[UUID, Known] = OrderedDict()

    def note(self, run: RunState, step: StepState | None) -> None:
        """Remember a written run and a step that the write left, or forget it without one.

        Of a queued step the input goes with its lease, so a large one is not remembered.
        """
        self._runs.pop(run.run_id, None)
        kept = None if step is None else _slim_step(step)
        if kept is None or self._capacity == 0:
            return
        self._runs[run.run_id] = (_slim(run), kept)
        if len(self._runs) > self._capacity:
            self._runs.popitem(last=False)

    @property
    def remembers_any(self) -> bool:
        """Whether there is room for a run: without it every event is decided on what is loaded."""
        return self._capacity > 0

    def has(self, run_id: UUID) -> bool:
        """Tell whether a run is remembered."""
        return run_id in self._runs

    def take(self, run_id: UUID) -> Known | None:
        """Return a run and its step, and forget them."""
        return self._runs.pop(run_id, None)


async def write_hand_overs(
    connection: Connection, decided: Mapping[UUID, HandOver]
) -> dict[UUID, HandOver]:
    """Write those that their runs' rows prove, and return these; the others change nothing."""
    if not decided:
        return {}
    rows = [_row(decided[run_id]) for run_id in sorted(decided)]
    proved = await WRITE_HAND_OVERS.write(connection, WRITTEN, rows)
    return {row["run_id"]: decided[row["run_id"]] for row in proved}


def _row(decided: HandOver) -> Row:
    run, ended, granted = decided.run, decided.ended, decided.granted
    begun = granted.step
    return (
        run.run_id, run.revision - 1, ended.step, ended.output, begun.node, begun.lane,
        begun.priority, begun.lease_id, begun.worker, granted.lease_for, decided.try_for,
        begun.effect_prefix, begun.input, _encode({"node": ended.node}),
        _encode({"node": begun.node, "worker": begun.worker}),
    )  # fmt: skip


def _slim(run: RunState) -> RunState:
    is_large = run.input is not None and len(run.input) > MAX_KEPT_PAYLOAD
    return replace(run, input=None) if is_large else run


def _slim_step(step: StepState) -> StepState | None:
    if step.status is not StepStatus.QUEUED:
        return replace(step, input=None)
    is_large = step.input is not None and len(step.input) > MAX_KEPT_PAYLOAD
    return None if is_large else step
