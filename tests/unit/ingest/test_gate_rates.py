"""Token buckets of keys: what one key uses up is no other's."""

from __future__ import annotations

import pytest
from perdure_runtime.clock import FakeClock
from perdure_runtime.errors import Reason, ResourceExhausted
from perdure_runtime.gate import rates
from perdure_runtime.gate.rates import Rate, Rates

EIGHT = Rate(per_second=8.0, burst=3)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def call(limits: Rates, key: str, rate: Rate | None = None) -> float:
    """Make a call; return the wait that is asked for, 0 if it is let in."""
    try:
        with limits.counted(key, rate):
            return 0.0
    except ResourceExhausted as refusal:
        return refusal.retry_after or 0.0


async def test_a_key_may_burst_and_then_go_on_at_its_rate(clock: FakeClock) -> None:
    limits = Rates(EIGHT, 100, clock)
    assert [call(limits, "a") for _ in range(3)] == [0.0] * 3
    assert call(limits, "a") == 0.125
    await clock.advance(0.0625)
    assert call(limits, "a") == 0.0625
    await clock.advance(0.0625)
    assert [call(limits, "a"), call(limits, "a")] == [0.0, 0.125]


def test_a_refusal_names_the_key_and_what_it_used_up(clock: FakeClock) -> None:
    limits = Rates(Rate(1.0, 1), 100, clock)
    call(limits, "a")
    with pytest.raises(ResourceExhausted) as refused, limits.counted("a", None):
        pass
    assert refused.value.reason == Reason.RATE_LIMITED
    assert dict(refused.value.metadata) == {"scope": "key", "key_id": "a", "cause": "rate"}


async def test_tokens_gather_up_to_the_burst_alone(clock: FakeClock) -> None:
    limits = Rates(EIGHT, 100, clock)
    call(limits, "a")
    await clock.advance(3600)
    assert sum(call(limits, "a") == 0.0 for _ in range(10)) == 3


def test_a_flood_with_one_key_leaves_the_others_theirs(clock: FakeClock) -> None:
    limits = Rates(EIGHT, 100, clock)
    assert sum(call(limits, "flood") > 0 for _ in range(1000)) == 997
    assert call(limits, "quiet") == 0.0


def test_a_key_with_a_rate_of_its_own_has_that(clock: FakeClock) -> None:
    limits = Rates(EIGHT, 100, clock)
    assert [call(limits, "a", Rate(1.0, 1)), call(limits, "a", Rate(1.0, 1))] == [0.0, 1.0]


def test_calls_at_once_are_bounded_and_come_back_when_they_end(clock: FakeClock) -> None:
    limits = Rates(Rate(1000.0, 1000), 2, clock)
    with limits.counted("a", None):
        with limits.counted("a", None):
            assert call(limits, "a") == rates.BUSY_RETRY_SECONDS
            assert call(limits, "b") == 0.0
        assert call(limits, "a") == 0.0


def test_a_call_that_fails_is_over_all_the_same(clock: FakeClock) -> None:
    limits = Rates(Rate(1000.0, 1000), 1, clock)
    with pytest.raises(ValueError, match="broke"), limits.counted("a", None):
        raise ValueError("broke")
    assert call(limits, "a") == 0.0


def test_what_is_kept_is_bounded(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_KEYS", 2)
    limits = Rates(Rate(1.0, 1), 100, clock)
    assert [call(limits, key) for key in "abc"] == [0.0] * 3
    assert call(limits, "c") > 0
    assert call(limits, "a") == 0.0
