"""Measures of what lasts too long: effects that nobody settles, transactions that nobody ends."""

from __future__ import annotations

from itertools import product

import asyncpg
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.metrics import gauge
from perdure_store.pool import acquire
from perdure_store.sweeps import Unsettled, oldest_transaction, unsettled_effects

UNSETTLED = gauge(
    "unsettled_effects", "Effects begun and not settled, by status and kind.", ("status", "kind")
)
OLDEST_UNSETTLED = gauge(
    "oldest_unsettled_effect_seconds",
    "Age of the oldest effect that is not settled, since its first call.",
    ("status", "kind"),
)
OLDEST_TRANSACTION = gauge(
    "oldest_transaction_seconds", "Age of the oldest transaction; an old one stops vacuum (F111)."
)

STATUSES = ("in_flight", "outcome_unknown", "needs_review")
KINDS = ("provider", "reconcile", "none")

_NONE = Unsettled(0, 0.0)


class Vitals:
    """Publishes the measures, while this process leads."""

    def __init__(self, pool: asyncpg.Pool, leadership: Leadership) -> None:
        self._pool = pool
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Measure once; who does not lead publishes nothing but zeros."""
        found: dict[tuple[str, str], Unsettled] = {}
        age = 0.0
        if self._leadership.is_leader:
            async with acquire(self._pool) as connection:
                found = await unsettled_effects(connection)
                age = await oldest_transaction(connection)
        for group in product(STATUSES, KINDS):
            unsettled = found.get(group, _NONE)
            UNSETTLED.labels(*group).set(unsettled.count)
            OLDEST_UNSETTLED.labels(*group).set(unsettled.oldest)
        OLDEST_TRANSACTION.set(age)
        return Pass()
