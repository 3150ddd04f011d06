"""Causes that steps are parked on, and how what is parked comes back (p8).

Parking reads a cause's generation and holds its row until the step is written; a repair raises the
generation and locks no run. So the repair finds the parked step, or parking finds the repair.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from perdure_runtime import fail_points

from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction, write

COMMIT_CAUSES = fail_points.declare("store.commit_causes")

MAX_RUNS_AT_ONCE = 500
"""Runs that one event sends the event to that brings back their steps (p5)."""


class CausesMissing(Exception):
    """Steps are to be parked on causes that have no row yet: make them and begin again."""

    def __init__(self, org: str, causes: frozenset[str]) -> None:
        super().__init__(f"{len(causes)} causes are to be made first")
        self.org = org
        self.causes = causes


async def hold_causes(connection: Connection, org: str, causes: Collection[str]) -> dict[str, int]:
    """Return generations that stay until the transaction's end. Raises `CausesMissing`."""
    rows = await connection.fetch(sql("causes.hold"), org, list(causes))
    found = {row["cause"]: row["generation"] for row in rows}
    missing = frozenset(causes) - found.keys()
    if missing:
        raise CausesMissing(org, missing)
    return found


async def make_causes(connection: Connection, org: str, causes: Collection[str]) -> None:
    """Make the rows of causes, outside of any transaction."""
    await write(connection, COMMIT_CAUSES, sql("causes.make"), org, sorted(causes))


async def raise_cause(connection: Connection, org: str, cause: str) -> int:
    """Say, in the caller's transaction, that a cause stands no more; return its generation.

    What was parked on it comes back by an event that the caller's commit sends.
    """
    row = await connection.fetchrow(sql("causes.raise"), org, cause)
    assert row is not None
    await _send_cursor(connection, org, row["cause_id"], row["generation"], UUID(int=0))
    return int(row["generation"])


async def go_on(connection: Connection, org: str, cause_id: UUID, timer_id: int) -> bool:
    """Send the next runs their events, if `timer_id` is what a cause waits for.

    Returns False where the org has no such cause: the timer is somebody else's.
    """
    row = await connection.fetchrow(sql("causes.of_cursor"), cause_id, org)
    if row is None:
        return False
    async with transaction(connection, COMMIT_CAUSES):
        taken = await connection.fetchrow(sql("causes.take_cursor"), timer_id, cause_id)
        if taken is None:
            return True
        after, generation = UUID(taken["details"].decode()), taken["generation"]
        sent = await connection.fetchrow(
            sql("causes.send_next"), org, row["cause"], generation, MAX_RUNS_AT_ONCE, after
        )
        assert sent is not None
        if sent["runs"] == MAX_RUNS_AT_ONCE:
            await _send_cursor(connection, org, cause_id, generation, sent["last"])
    return True


async def send_forgotten(connection: Connection, *, limit: int) -> int:
    """Send the event anew for causes whose parked steps nothing brings back; return how many."""
    async with transaction(connection, COMMIT_CAUSES):
        rows = await connection.fetch(sql("causes.forgotten"), limit)
        for row in rows:
            cursor = row["org"], row["cause_id"], row["generation"]
            await _send_cursor(connection, *cursor, UUID(int=0))
    return len(rows)


async def _send_cursor(
    connection: Connection, org: str, cause_id: UUID, generation: int, after: UUID
) -> None:
    details = str(after).encode()
    await connection.execute(sql("causes.send_cursor"), cause_id, org, generation, details)
