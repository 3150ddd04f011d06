"""Measures of what lasts too long: effects that nobody settles, transactions that nobody ends."""

from __future__ import annotations

import asyncpg
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.metrics import gauge
from perdure_store.pool import acquire
from perdure_store.sweeps import oldest_transaction, unsettled_effects

UNSETTLED = gauge("unsettled_effects", "Effects begun and not settled, by status.", ("status",))
OLDEST_TRANSACTION = gauge(
    "oldest_transaction_seconds", "Age of the oldest transaction; an old one stops vacuum (F111)."
)

STATUSES = ("in_flight", "outcome_unknown", "needs_review")


class Vitals:
    """Publishes the measures, while this process leads."""

    def __init__(self, pool: asyncpg.Pool, leadership: Leadership) -> None:
        self._pool = pool
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Measure once; who does not lead publishes nothing but zeros."""
        counts: dict[str, int] = {}
        age = 0.0
        if self._leadership.is_leader:
            async with acquire(self._pool) as connection:
                counts = await unsettled_effects(connection)
                age = await oldest_transaction(connection)
        for status in STATUSES:
            UNSETTLED.labels(status).set(counts.get(status, 0))
        OLDEST_TRANSACTION.set(age)
        return Pass(counts)
