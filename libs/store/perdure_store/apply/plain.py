"""The plain cases of remembered runs: decided at once, proved and written by one statement a kind.

A first step that is leased, a step that hands its run over to the next, a last step whose report
ends the run: what a process wrote last of a run is enough to decide on these (P4). All else, and
whatever is not proved, goes the way of every event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
from perdure_machine.decide.first_step import TakeUp, take_up
from perdure_machine.decide.hand_over import HandOver, hand_over
from perdure_machine.decide.last_report import LastReport, last_report
from perdure_machine.decide.last_wait import LastWait
from perdure_machine.events import Acquire, Report
from perdure_machine.view import StepState

from perdure_store.apply.batch import Plain, RunEvents
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.hand_overs import WRITTEN, Known, RememberedRuns, write_hand_overs
from perdure_store.apply.monthly import MonthlyStatement
from perdure_store.apply.rowsets import Row, RowSet
from perdure_store.apply.waits import write_waits
from perdure_store.pool import Connection
from perdure_store.sql import sql

TAKE_UP = MonthlyStatement(
    sql("plain.take_up"),
    RowSet.of(
        "taken",
        "run_id uuid, before bigint, step integer, lease_id uuid, worker text,"
        "lease_for float8, try_for float8, details bytea",
    ),
)
END = MonthlyStatement(
    sql("plain.end"),
    RowSet.of(
        "ended",
        "run_id uuid, before bigint, step integer, output bytea, run_output bytea, details bytea",
    ),
    {"retention": "float8"},
)

_encode = msgspec.json.Encoder().encode


def decide_plainly(
    remembered: RememberedRuns, catalogue: Catalogue, batch: Sequence[RunEvents]
) -> dict[UUID, Plain]:
    """Return what of a batch can be decided on what is remembered, by run.

    The runs of the batch are forgotten: they are about to change.
    """
    found = {one.run_id: _decided(remembered.take(one.run_id), catalogue, one) for one in batch}
    return {run_id: decided for run_id, decided in found.items() if decided is not None}


def _decided(known: Known | None, catalogue: Catalogue, one: RunEvents) -> Plain | None:
    if known is None or len(one.events) > 1:
        return None
    (run, step), (sent,) = known, one.events
    definition = catalogue.known(run.workflow_id)
    if definition is None or sent.org != run.org:
        return None
    match sent.event:
        case Acquire() as event:
            return take_up(definition, catalogue.lanes, run, step, event)
        case Report() as event:
            handed = hand_over(definition, catalogue.lanes, run, step, event)
            return handed or last_report(definition, run, step, event)
        case _:
            return None


async def write_plainly(
    connection: Connection, decided: Mapping[UUID, Plain], *, retention: float
) -> dict[UUID, Plain]:
    """Write what the runs' rows prove, and return that; the rest changes nothing.

    `retention` is how long a start key outlives its run, in seconds.
    """
    in_order = [decided[run_id] for run_id in sorted(decided)]
    handed = {one.run.run_id: one for one in in_order if isinstance(one, HandOver)}
    proved: set[UUID] = set(await write_hand_overs(connection, handed))
    if taken := [_leased(one) for one in in_order if isinstance(one, TakeUp)]:
        rows = await TAKE_UP.write(connection, WRITTEN, taken)
        proved |= {row["run_id"] for row in rows}
    if ended := [_ended(one) for one in in_order if isinstance(one, LastReport)]:
        rows = await END.write(connection, WRITTEN, ended, retention=retention)
        proved |= {row["run_id"] for row in rows}
    waits = [one for one in in_order if isinstance(one, LastWait)]
    proved |= await write_waits(connection, waits, retention=retention)
    return {run_id: one for run_id, one in decided.items() if run_id in proved}


def held_after(plain: Plain) -> StepState | None:
    """Return the step that is leased by what was decided, None where the run is over."""
    return None if isinstance(plain, LastReport | LastWait) else plain.granted.step


def _leased(one: TakeUp) -> Row:
    granted, step = one.granted, one.granted.step
    return (
        one.run.run_id, one.run.revision - 1, step.step, step.lease_id, step.worker,
        granted.lease_for, granted.timeout, _encode({"node": step.node, "worker": step.worker}),
    )  # fmt: skip


def _ended(one: LastReport) -> Row:
    run, step = one.run, one.ended
    return (
        run.run_id, run.revision - 1, step.step, step.output, run.output,
        _encode({"node": step.node}),
    )  # fmt: skip
