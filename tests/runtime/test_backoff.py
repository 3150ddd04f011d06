import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perdure_runtime.backoff import Backoff, full_jitter

attempts = st.integers(min_value=1, max_value=10_000)
bases = st.floats(min_value=1e-3, max_value=1e6)
factors = st.floats(min_value=1.0, max_value=1e6)
caps = st.floats(min_value=1e-3, max_value=1e9)
jitters = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)


@given(attempts, bases, factors, caps, jitters)
def test_f042_every_wait_is_finite_and_between_base_and_cap(
    attempt: int, base: float, factor: float, cap: float, jitter: float
) -> None:
    wait = full_jitter(attempt, base, factor, cap, jitter)
    assert math.isfinite(wait)
    assert min(base, cap) <= wait <= cap


def test_f042_no_attempt_up_to_ten_thousand_overflows() -> None:
    for attempt in range(1, 10_001):
        assert 1.0 <= full_jitter(attempt, 1.0, 2.0, 3600.0, 0.999) <= 3600.0


def test_f039_the_exponent_is_clamped_before_multiplying() -> None:
    assert full_jitter(310, 1.0, 10.0, 86_400.0, 0.5) == 1.0 + 0.5 * 86_399.0
    assert full_jitter(10_000, 1e-6, 1e6, 1e9, 0.0) == 1e-6


@given(attempts, jitters)
def test_f040_jitter_never_pushes_the_wait_over_the_cap(attempt: int, jitter: float) -> None:
    assert full_jitter(attempt, 7.0, 3.0, 10.0, jitter) <= 10.0


@given(bases, factors, jitters)
def test_f046_the_first_retry_uses_the_base_whatever_the_jitter(
    base: float, factor: float, jitter: float
) -> None:
    assert full_jitter(1, base, factor, 1e9, jitter) == base


@given(attempts, bases, factors, caps)
def test_the_ceiling_never_falls_from_one_attempt_to_the_next(
    attempt: int, base: float, factor: float, cap: float
) -> None:
    top = math.nextafter(1.0, 0.0)
    assert full_jitter(attempt, base, factor, cap, top) <= full_jitter(
        attempt + 1, base, factor, cap, top
    ) * (1 + 1e-9)


def test_the_waits_of_the_docstring() -> None:
    policy = Backoff(base=1.0, factor=2.0, cap=60.0)
    waits = [policy.seconds(attempt, 0.5) for attempt in range(1, 9)]
    assert waits == [1, 1.5, 2.5, 4.5, 8.5, 16.5, 30.5, 30.5]


def test_a_base_of_zero_retries_at_once() -> None:
    assert full_jitter(50, 0.0, 2.0, 60.0, 0.9) == 0.0


@pytest.mark.parametrize(
    ("attempt", "base", "factor", "cap", "jitter"),
    [
        (0, 1.0, 2.0, 60.0, 0.0),
        (1, -1.0, 2.0, 60.0, 0.0),
        (1, math.nan, 2.0, 60.0, 0.0),
        (1, 1.0, 0.5, 60.0, 0.0),
        (1, 1.0, math.inf, 60.0, 0.0),
        (1, 1.0, 2.0, math.inf, 0.0),
        (1, 1.0, 2.0, 60.0, 1.0),
    ],
)
def test_arguments_out_of_range_are_refused(
    attempt: int, base: float, factor: float, cap: float, jitter: float
) -> None:
    with pytest.raises(ValueError, match=r"must|counts"):
        full_jitter(attempt, base, factor, cap, jitter)
