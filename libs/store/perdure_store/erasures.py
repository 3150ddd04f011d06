"""Erasures: asked for, sent to the runs of their subject some at a time, and read again (p5).

The event that goes on with an erasure hangs on the erasure's own id, as that of a migration does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import asyncpg
from perdure_runtime import fail_points

from perdure_store.audit import audit
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_ERASURE = fail_points.declare("store.commit_erasure")
COMMIT_ERASURE_CURSOR = fail_points.declare("store.commit_erasure_cursor")

MAX_SENT_AT_ONCE = 500
"""Runs that one event of an erasure sends theirs (protocol p5)."""

MAX_PREVIEWED = 100_000
"""Runs that a preview counts at most."""

FIRST = UUID(int=0)
"""Stands before every erasure."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An erasure of all that is about the subject of a hash; `reason` and `asked_by` are kept."""

    erasure_id: UUID
    org: str
    subject_hash: bytes
    reason: str
    asked_by: str


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure: how many runs it came to, and how many rows of each kind it has removed.

    `all_sent_at` is when the last run got its event, None before.
    """

    erasure_id: UUID
    subject_hash: bytes
    reason: str
    asked_by: str
    created_at: datetime
    all_sent_at: datetime | None
    pending: int
    erased: int
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preview:
    """What an erasure would come to now: runs with those that they have started, and steps."""

    runs: int
    unfinished: int
    erased_before: int
    steps: int


async def create(connection: Connection, asked: Asked) -> None:
    """Store an erasure and send what begins it; the same id again is the same erasure.

    Waits for every transaction that makes work about the subject, so that it finds that too.
    """
    async with transaction(connection, COMMIT_ERASURE):
        await connection.execute(sql("consent.lock_subject"), asked.subject_hash)
        added = await connection.fetchval(
            sql("erasure.create"),
            asked.erasure_id,
            asked.org,
            asked.subject_hash,
            asked.reason,
            asked.asked_by,
        )
        await connection.execute(sql("erasure.send_cursor"), asked.erasure_id, asked.org)
        if added is not None:
            await _audit(connection, asked)


async def _audit(connection: Connection, asked: Asked) -> None:
    await audit(
        connection,
        org=asked.org,
        actor=asked.asked_by,
        action="subject.erase",
        target=asked.subject_hash.hex(),
        details={"erasure_id": str(asked.erasure_id), "reason": asked.reason},
    )


async def go_on(connection: Connection, org: str, erasure_id: UUID, timer_id: int) -> bool:
    """Send the next runs their events, if `timer_id` still is what goes on with the erasure.

    Returns False where the org has no such erasure: the timer is somebody else's.
    """
    if not await connection.fetchval(sql("erasure.is_cursor"), erasure_id, org):
        return False
    async with transaction(connection, COMMIT_ERASURE_CURSOR):
        taken = await connection.fetchrow(sql("erasure.take_cursor"), timer_id, erasure_id)
        if taken is not None:
            all_sent = await connection.fetchval(
                sql("erasure.send_next"), erasure_id, MAX_SENT_AT_ONCE
            )
            if not all_sent:
                await connection.execute(sql("erasure.send_cursor"), erasure_id, org)
    return True


async def preview(connection: Connection, org: str, subject_hash: bytes) -> Preview:
    """Count what an erasure of the subject would come to now; changes nothing."""
    row = await connection.fetchrow(sql("erasure.preview"), org, subject_hash, MAX_PREVIEWED)
    assert row is not None
    return Preview(**row)


async def read(connection: Connection, org: str, erasure_id: UUID) -> Erasure | None:
    """Return an erasure of the org, with what it has removed."""
    row = await connection.fetchrow(sql("erasure.read"), erasure_id, org)
    if row is None:
        return None
    counts = await connection.fetch(sql("erasure.read_counts"), erasure_id)
    return _erasure(row, {one["kind"]: one["erased"] for one in counts})


async def list_erasures(
    connection: Connection, org: str, *, after: UUID, limit: int
) -> Sequence[Erasure]:
    """Return the next erasures of an org, without what they have removed."""
    rows = await connection.fetch(sql("erasure.list"), org, after, limit)
    return [_erasure(row, {}) for row in rows]


def _erasure(row: asyncpg.Record, counts: Mapping[str, int]) -> Erasure:
    return Erasure(**row, counts=counts)
