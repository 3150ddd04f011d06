"""Writes scopes, and the counters of the steps that hold them, where an event changed any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure_machine.changes import Changes

from perdure_store.apply.rows import error_bytes
from perdure_store.apply.rowsets import Row, RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

WRITE_SCOPES = Statement(
    sql("scopes.write"),
    [
        RowSet.of(
            "scopes",
            "run_id uuid, scope text, generation integer, owner integer, index integer,"
            "status text, ended_nodes integer, item bytea, carry bytea, output bytea, error bytea",
        ),
        RowSet.of(
            "blocks",
            "run_id uuid, step integer, generation integer, total integer, at_once integer,"
            "made integer, begun integer, ended integer, failed integer, ending text, error bytea",
        ),
    ],
)


async def write_scopes(connection: Connection, changes: Sequence[Changes]) -> None:
    """Write what changed of scopes; the run's own row guards them, which is locked (R1)."""
    if any(one.scopes or one.blocks for one in changes):
        rows = {"scopes": _scopes(changes), "blocks": _blocks(changes)}
        await connection.execute(WRITE_SCOPES.text, *WRITE_SCOPES.arguments(rows))


async def forget_scopes(connection: Connection, changes: Sequence[Changes]) -> None:
    """Delete what is kept no longer; after the write, which may have made some of it."""
    forgotten = [(one.run.run.run_id, scope) for one in changes for scope in one.forgotten]
    if forgotten:
        run_ids, scopes = zip(*forgotten, strict=True)
        await connection.execute(sql("scopes.forget"), run_ids, scopes)


def _scopes(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        for scope in one.scopes:
            yield (
                one.run.run.run_id, *scope.place, scope.owner, scope.index, scope.status,
                scope.ended_nodes, scope.item, scope.carry, scope.output, error_bytes(scope.error),
            )  # fmt: skip


def _blocks(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        for block in one.blocks:
            yield (
                one.run.run.run_id, block.step, block.generation, block.total, block.limit,
                block.made, block.begun, block.ended, block.failed, block.ending,
                error_bytes(block.error),
            )  # fmt: skip
