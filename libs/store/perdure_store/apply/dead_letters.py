"""Writes which runs became dead letters, and which are none any more; only where there are any."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_machine.actions import PutDeadLetter
from perdure_machine.changes import Changes

from perdure_store.apply.rows import error_bytes
from perdure_store.pool import Connection
from perdure_store.sql import sql


async def write_dead_letters(connection: Connection, changes: Sequence[Changes]) -> None:
    """Remove first: a run that was one before may be one again."""
    gone = [c.run.run.run_id for c in changes if c.drops_dead_letter]
    if gone:
        await connection.execute(sql("dead_letters.drop"), sorted(gone))
    made = [_row(c, c.dead_letter) for c in changes if isinstance(c.dead_letter, PutDeadLetter)]
    if made:
        await connection.execute(sql("dead_letters.put"), *zip(*made, strict=True))


def _row(changes: Changes, letter: PutDeadLetter) -> tuple[object, ...]:
    run = changes.run.run
    return (
        run.run_id, run.org, run.workflow, run.workflow_version, letter.node, letter.cause,
        letter.error.code, error_bytes(letter.error),
    )  # fmt: skip
