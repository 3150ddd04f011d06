"""Exclusive keys in the database: locked first, read in a later statement, moved at the write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from perdure_machine.actions import KeyMove, MoveKey
from perdure_machine.changes import Changes
from perdure_machine.view import KeyQueue

from perdure_store.pool import Connection
from perdure_store.sql import sql

MAX_TOLD_AT_ONCE = 500
"""Runs that one event tells to make way, as many as one that closes a run ends steps."""

Key = tuple[str, str]
"""An org and one of its keys."""

_STATEMENTS = {
    KeyMove.TAKE: "exclusive.give",
    KeyMove.PASS: "exclusive.give",
    KeyMove.AWAIT: "exclusive.await",
    KeyMove.REPLACE: "exclusive.tell",
    KeyMove.LEAVE: "exclusive.leave",
    KeyMove.FREE: "exclusive.free",
}


class KeysNotLocked(Exception):
    """A decision needs a key that its transaction has not locked: lock it before the runs (R14)."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"the exclusive key {key} is not locked")
        self.key = key


async def lock_keys(connection: Connection, keys: Collection[Key]) -> None:
    """Lock keys in key order, waiting for whoever holds them."""
    if keys:
        ordered = sorted(keys)
        await connection.execute(
            sql("exclusive.lock"), [org for org, _ in ordered], [key for _, key in ordered]
        )


async def load_queues(connection: Connection, runs: Mapping[UUID, Key]) -> dict[UUID, KeyQueue]:
    """Return who has and wants each run's key, whose lock is held."""
    rows = await connection.fetch(
        sql("exclusive.queues"),
        [org for org, _ in runs.values()],
        [key for _, key in runs.values()],
        list(runs),
        MAX_TOLD_AT_ONCE,
    )
    return {
        row["run_id"]: KeyQueue(
            holder=row["holder"],
            is_open=row["is_open"],
            told=bool(row["told"]),
            first=row["first"],
            untold=tuple(row["untold"]),
            waits=row["waits"],
        )
        for row in rows
    }


async def write_key_moves(connection: Connection, changes: Sequence[Changes]) -> None:
    """Do what runs decided about their keys, in order, and forget keys that nobody has."""
    touched: set[Key] = set()
    for one in changes:
        for move in one.key_moves:
            touched.add((one.run.run.org, move.key))
            await _move(connection, one, move)
    await tidy_keys(connection, touched)


async def tidy_keys(connection: Connection, keys: Collection[Key]) -> None:
    """Delete those of the keys that nobody has and nobody wants; their locks are held."""
    if keys:
        await connection.execute(
            sql("exclusive.tidy"), [org for org, _ in keys], [key for _, key in keys]
        )


async def _move(connection: Connection, changes: Changes, move: MoveKey) -> None:
    run = changes.run.run
    receiver = move.to if move.move is KeyMove.PASS else run.run_id
    await connection.execute(sql(_STATEMENTS[move.move]), run.org, move.key, receiver)
