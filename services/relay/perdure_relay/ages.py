"""Publishes how long rows have been waiting."""

from __future__ import annotations

import asyncpg
from perdure_runtime.loop import Pass
from perdure_runtime.tracing import quiet
from perdure_store import outbox
from perdure_store.pool import acquire

from perdure_relay.metrics import OLDEST_READY, OUTBOX_AGE


class Ages:
    """The age of the oldest ready row of each lane, and of the outbox; 0 where nothing waits."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._lanes: set[str] = set()

    async def run_once(self) -> Pass:
        """Measure once."""
        with quiet():
            async with acquire(self._pool) as connection:
                ready = await outbox.oldest_ready(connection)
                oldest = await outbox.oldest(connection)
        ages: dict[str, float] = {}
        for (lane, _), seconds in ready.items():
            ages[lane] = max(seconds, ages.get(lane, 0.0))
        self._lanes |= ages.keys()
        for lane in self._lanes:
            OLDEST_READY.labels(lane).set(ages.get(lane, 0.0))
        OUTBOX_AGE.set(oldest)
        return Pass()
