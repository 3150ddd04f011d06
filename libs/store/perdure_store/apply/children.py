"""Children of runs: loaded for the events about them, written under their parent's lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import asyncpg
from perdure_machine.changes import Changes
from perdure_machine.decide.children import MAX_LEFT_AT_ONCE
from perdure_machine.replacing import replace
from perdure_machine.states import ABOUT_CHILDREN, ChildStatus, ParentEnd, TimerKind
from perdure_machine.view import ChildState, View

from perdure_store.apply.rowsets import Row, RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

WRITE_CHILDREN = Statement(
    sql("children.write"),
    [
        RowSet.of(
            "children",
            "run_id uuid, step integer, org text, workflow text, version integer,"
            "on_parent_end text, status text, child_run uuid",
        )
    ],
)

_ABOUT_CHILDREN = ABOUT_CHILDREN | {TimerKind.TIMEOUT}

StepRef = tuple[UUID, int]
"""A run and the number of a step of it."""


async def load_children(
    connection: Connection, steps: Iterable[StepRef]
) -> Mapping[UUID, dict[int, ChildState]]:
    """Return the children of these steps, by run and step."""
    wanted = list(steps)
    found: defaultdict[UUID, dict[int, ChildState]] = defaultdict(dict)
    if wanted:
        rows = await connection.fetch(
            sql("children.load"), [run_id for run_id, _ in wanted], [step for _, step in wanted]
        )
        for row in rows:
            found[row["run_id"]][row["step"]] = _child_state(row)
    return found


async def with_children(connection: Connection, views: Mapping[UUID, View]) -> dict[UUID, View]:
    """Return the views with the children of the steps whose timers are delivered."""
    about = [
        (run_id, timer.step)
        for run_id, view in views.items()
        for timer in view.timers.values()
        if timer.step is not None and timer.kind in _ABOUT_CHILDREN
    ]
    found = await load_children(connection, about)
    return {run_id: replace(view, children=found.get(run_id, {})) for run_id, view in views.items()}


async def load_leaving(connection: Connection, run_id: UUID) -> tuple[ChildState, ...]:
    """Return the next running children that end with what has ended, one more than are ended."""
    rows = await connection.fetch(sql("children.load_leaving"), run_id, MAX_LEFT_AT_ONCE + 1)
    return tuple(map(_child_state, rows))


def still_leaving(
    loaded: Sequence[ChildState], children: Mapping[int, ChildState]
) -> tuple[int, ...]:
    """Return the steps of those that were loaded that no earlier event of the batch has left."""
    steps = (child.step for child in loaded)
    return tuple(step for step in steps if children[step].status is ChildStatus.RUNNING)


async def write_children(connection: Connection, changes: Sequence[Changes]) -> None:
    """Write the children of changed runs, if there are any."""
    if any(one.children for one in changes):
        await connection.execute(
            WRITE_CHILDREN.text, *WRITE_CHILDREN.arguments({"children": _rows(changes)})
        )


def _rows(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        run = one.run.run
        for child in (put.child for put in one.children):
            yield (
                run.run_id, child.step, run.org, child.workflow, child.version,
                child.on_parent_end, child.status, child.run_id,
            )  # fmt: skip


def _child_state(row: asyncpg.Record) -> ChildState:
    return ChildState(
        step=row["step"],
        workflow=row["workflow"],
        version=row["version"],
        on_parent_end=ParentEnd(row["on_parent_end"]),
        status=ChildStatus(row["status"]),
        run_id=row["child_run"],
    )
