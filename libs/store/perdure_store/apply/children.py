"""Children of runs: loaded for the events about them, written under their parent's lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import asyncpg
from perdure_machine.changes import Changes
from perdure_machine.decide.children import MAX_LEFT_AT_ONCE
from perdure_machine.states import ChildStatus, ParentEnd
from perdure_machine.view import ChildState

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


async def load_leaving(connection: Connection, run_id: UUID) -> list[ChildState]:
    """Return the next running children that end with what has ended, one more than are ended."""
    rows = await connection.fetch(sql("children.load_leaving"), run_id, MAX_LEFT_AT_ONCE + 1)
    return [_child_state(row) for row in rows]


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
