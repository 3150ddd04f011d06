"""Months ahead and start keys that are over: upkeep of tables, apart from each other (F107)."""

from __future__ import annotations

import asyncpg
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.metrics import gauge
from perdure_store.pool import acquire
from perdure_store.sweeps import drop_start_keys, ensure_months, head_room

KEYS_AT_ONCE = 1000

HEAD_ROOM = gauge("months_head_room_seconds", "Until the last month with partitions ends.", ())


class Upkeep:
    """Does the upkeep, while this process leads."""

    def __init__(self, pool: asyncpg.Pool, leadership: Leadership) -> None:
        self._pool = pool
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Make months, delete keys, tell the head room."""
        if not self._leadership.is_leader:
            return Pass()
        async with acquire(self._pool) as connection:
            made = await ensure_months(connection)
            HEAD_ROOM.set(await head_room(connection))
            dropped = await drop_start_keys(connection, limit=KEYS_AT_ONCE)
        return Pass(
            {"months_made": made, "start_keys_dropped": dropped}, more=dropped == KEYS_AT_ONCE
        )
