"""Effects that nobody settles and transactions that nobody ends are measured (F111)."""

from __future__ import annotations

import math

import pytest
from perdure_runtime.clock import SystemClock
from perdure_runtime.election import Leadership
from perdure_sweeper.vitals import (
    OLDEST_TRANSACTION,
    OLDEST_UNSETTLED,
    UNSETTLED,
    Vitals,
)
from perdure_testkit.database import Database
from prometheus_client import REGISTRY

EFFECT = """
INSERT INTO effects (run_id, key, org, step, kind, status, fence, calls, begun_at)
SELECT uuid7_floor(clock_timestamp()), 'k' || n, 'default', 1, 'provider', 'outcome_unknown', 1, 1,
       clock_timestamp() - n * interval '1 h'
  FROM generate_series(1, 2) AS n
"""


def leading(until: float) -> Leadership:
    leadership = Leadership("sweeper", SystemClock())
    leadership.trust_until(until)
    return leadership


def unsettled(status: str, kind: str = "provider") -> float | None:
    labels = {"status": status, "kind": kind}
    return REGISTRY.get_sample_value("perdure_unsettled_effects", labels)


def oldest_unsettled(status: str, kind: str = "provider") -> float:
    labels = {"status": status, "kind": kind}
    return REGISTRY.get_sample_value("perdure_oldest_unsettled_effect_seconds", labels) or 0.0


def oldest() -> float:
    return REGISTRY.get_sample_value("perdure_oldest_transaction_seconds") or 0.0


async def test_f111_open_effects_and_the_oldest_transaction_are_published(
    database: Database,
) -> None:
    rows = await database.connect()
    await rows.execute(EFFECT)
    pool = await database.open_pool("sweeper", size=1)
    other = await database.connect("ingest")
    async with other.transaction(isolation="repeatable_read"):
        await other.fetchval("SELECT count(*) FROM runs")
        await Vitals(pool, leading(math.inf)).run_once()
        assert (unsettled("outcome_unknown"), unsettled("outcome_unknown", "none")) == (2, 0)
        assert 7200 <= oldest_unsettled("outcome_unknown") < 7300
        assert oldest() > 0


@pytest.mark.parametrize("status", ["in_flight", "outcome_unknown", "needs_review"])
async def test_who_does_not_lead_publishes_zeros(database: Database, status: str) -> None:
    UNSETTLED.labels(status, "provider").set(7)
    OLDEST_UNSETTLED.labels(status, "provider").set(7)
    OLDEST_TRANSACTION.set(7)
    pool = await database.open_pool("sweeper", size=1)
    await Vitals(pool, leading(-math.inf)).run_once()
    assert (unsettled(status), oldest_unsettled(status)) == (0, 0)
    assert oldest() == 0
