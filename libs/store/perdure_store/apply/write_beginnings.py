"""Writes what few runs have: beginnings that are called off."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_machine.changes import Changes

from perdure_store.pool import Connection
from perdure_store.sql import sql


async def write_beginnings(connection: Connection, changes: Sequence[Changes]) -> None:
    """Drop the timers of runs themselves that are needed no more; those delivered are gone."""
    dropped = [(c.run.run.run_id, kind) for c in changes for kind in c.drop_run_timers]
    if dropped:
        runs, kinds = zip(*dropped, strict=True)
        await connection.execute(sql("timers.drop_of_runs"), runs, kinds)
