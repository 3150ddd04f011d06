"""Epochs: whether the database may have forgotten calls that were made (protocol p4).

A restore, or a failover that lost what was written last, goes on from an earlier moment. Calls that
no key protects wait then until an operator says what happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure_runtime import fail_points

from perdure_store.audit import audit
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_EPOCH = fail_points.declare("store.commit_epoch")

_TARGET = "database"


@dataclass(frozen=True, slots=True)
class EpochNow:
    """The latest epoch and the database as it is; `begun_at` is None for the first.

    `is_open`: the epoch was begun on this database, or on one that lost nothing before this.
    `lossless`: the operator has said that failovers lose nothing.
    """

    number: int
    begun_at: datetime | None
    is_open: bool
    lossless: bool


async def read_epoch(connection: Connection) -> EpochNow:
    """Return the latest epoch."""
    (row,) = await connection.fetch(sql("epochs.read"))
    return EpochNow(row["epoch"], row["begun_at"], row["is_open"], row["lossless"])


async def begin_next(connection: Connection, *, actor: str, reason: str) -> EpochNow:
    """Begin the next epoch on the database as it is; what calls came to is asked again."""
    async with transaction(connection, COMMIT_EPOCH) as tx:
        number = await tx.connection.fetchval(sql("epochs.begin_next"))
        await _note(tx.connection, "epoch.raise", number, actor, reason)
    return await read_epoch(connection)


async def declare_lossless(connection: Connection, *, actor: str, reason: str) -> EpochNow:
    """Have the latest epoch go on, because the database has forgotten nothing."""
    async with transaction(connection, COMMIT_EPOCH) as tx:
        number = await tx.connection.fetchval(sql("epochs.declare_lossless"))
        await _note(tx.connection, "epoch.lossless", number, actor, reason)
    return await read_epoch(connection)


async def trust_failovers(
    connection: Connection, *, lossless: bool, actor: str, reason: str
) -> EpochNow:
    """Say whether failovers to come lose nothing; the latest epoch goes on after those that were.

    A restore is no failover, and begins an epoch whatever this says.
    """
    action = "epoch.trust" if lossless else "epoch.distrust"
    async with transaction(connection, COMMIT_EPOCH) as tx:
        number = await tx.connection.fetchval(sql("epochs.trust"), lossless)
        await _note(tx.connection, action, number, actor, reason)
    return await read_epoch(connection)


async def _note(connection: Connection, action: str, number: int, actor: str, reason: str) -> None:
    details = {"epoch": number, "reason": reason}
    await audit(connection, org=None, actor=actor, action=action, target=_TARGET, details=details)
