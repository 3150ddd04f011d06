"""Upkeep of tables: months ahead, keys and signals that are over, apart from each other (F107)."""

from __future__ import annotations

import asyncpg
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.metrics import gauge
from perdure_store.pool import Connection, acquire
from perdure_store.signals import drop_free_keys, drop_signals
from perdure_store.sweeps import drop_start_keys, ensure_months, head_room

KEYS_AT_ONCE = 1000
SIGNALS_AT_ONCE = 1000

FREE_KEY_SECONDS = 3600.0
"""How long a correlation key that is nobody's stays; it is only something to lock."""

HEAD_ROOM = gauge("months_head_room_seconds", "Until the last month with partitions ends.")


class Months:
    """Makes months ahead, while this process leads; tells the head room always.

    The head room is told before months are made too: making them may fail, and that must be seen.
    """

    def __init__(self, pool: asyncpg.Pool, leadership: Leadership) -> None:
        self._pool = pool
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Make what is missing of this month and the next two."""
        async with acquire(self._pool) as connection:
            await _tell_head_room(connection)
            if not self._leadership.is_leader:
                return Pass()
            made = await ensure_months(connection)
            await _tell_head_room(connection)
        return Pass({"months_made": made})


async def _tell_head_room(connection: Connection) -> None:
    HEAD_ROOM.set(await head_room(connection))


class StartKeys:
    """Deletes start keys whose retention is over, while this process leads."""

    def __init__(self, pool: asyncpg.Pool, leadership: Leadership) -> None:
        self._pool = pool
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Delete one batch."""
        if not self._leadership.is_leader:
            return Pass()
        async with acquire(self._pool) as connection:
            dropped = await drop_start_keys(connection, limit=KEYS_AT_ONCE)
        return Pass({"start_keys_dropped": dropped}, more=dropped == KEYS_AT_ONCE)


class OldSignals:
    """Deletes signals whose time is over, and keys that are nobody's, while this process leads."""

    def __init__(self, pool: asyncpg.Pool, leadership: Leadership) -> None:
        self._pool = pool
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Delete one batch of each."""
        if not self._leadership.is_leader:
            return Pass()
        async with acquire(self._pool) as connection:
            signals = await drop_signals(connection, limit=SIGNALS_AT_ONCE)
            keys = await drop_free_keys(connection, limit=KEYS_AT_ONCE, older_than=FREE_KEY_SECONDS)
        more = signals == SIGNALS_AT_ONCE or keys == KEYS_AT_ONCE
        return Pass({"signals_dropped": signals, "correlation_keys_dropped": keys}, more=more)
