"""Run ids follow the database's clock, and each other."""

from __future__ import annotations

from uuid import UUID

from perdure_store.apply.run_ids import RunIds

HOUR_MS = 3_600_000


def milliseconds(run_id: UUID) -> int:
    return run_id.int >> 80


def test_ids_stay_in_order_though_the_time_that_is_learned_goes_back_a_little() -> None:
    ids, now_ms = RunIds(), 1_796_000_000_000
    made = []
    for back in (0, 1, 0, 2, 5, 0):
        ids.learn(now_ms - back)
        made += [ids.next(), ids.next()]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_clock_that_was_far_ahead_is_not_followed_for_ever() -> None:
    ids, now_ms = RunIds(), 1_796_000_000_000
    ids.learn(now_ms + HOUR_MS)
    ids.next()
    ids.learn(now_ms)
    assert 0 <= milliseconds(ids.next()) - now_ms < 1000
