"""Timers whose delivery failed, and timers of runs that are no more (protocol p5)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_runtime import fail_points

from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import write

COMMIT_PUT_OFF = fail_points.declare("store.commit_put_off")
COMMIT_DROP_ORPHANS = fail_points.declare("store.commit_drop_orphans")


async def put_off(connection: Connection, timer_ids: Sequence[int]) -> None:
    """Let timers whose delivery failed be tried later and later, so that others come first."""
    await write(connection, COMMIT_PUT_OFF, sql("timers.put_off"), timer_ids)


async def drop_orphans(connection: Connection, timer_ids: Sequence[int]) -> None:
    """Delete those of the timers that belong to no run."""
    await write(connection, COMMIT_DROP_ORPHANS, sql("timers.drop_orphans"), timer_ids)
