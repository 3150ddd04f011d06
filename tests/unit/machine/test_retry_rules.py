"""Which rule an error meets, and how long it waits."""

import pytest
from perdure_machine.decide.failing import matching_rule, retry_delay
from perdure_machine.definition.model import RetryRule
from perdure_machine.view import NodeError

NAMED = RetryRule(frozenset({"E1", "rate_limited"}), 3, 1.0, 2.0, 60.0)
REST = RetryRule(frozenset(), 1, 1.0, 2.0, 60.0)
PERMANENT = RetryRule(frozenset({"permanent"}), 1, 1.0, 2.0, 60.0)


@pytest.mark.parametrize(
    ("category", "code", "rule"),
    [
        ("retryable", "E1", NAMED),
        ("permanent", "E1", NAMED),
        ("rate_limited", "E2", NAMED),
        ("retryable", "E2", REST),
        ("permanent", "E2", PERMANENT),
        ("authorisation", "E2", None),
        ("poison", "POISON", None),
    ],
)
def test_the_first_rule_that_names_the_error_counts(
    category: str, code: str, rule: RetryRule | None
) -> None:
    assert matching_rule((NAMED, REST, PERMANENT), NodeError(category, code, "")) == rule


@pytest.mark.parametrize(("failures", "waits"), [(1, 1.0), (2, 1.5), (3, 2.5), (50, 30.5)])
def test_waits_grow_from_the_base_to_the_cap_with_jitter(failures: int, waits: float) -> None:
    assert retry_delay(REST, failures, 0.5, None) == pytest.approx(waits)


@pytest.mark.parametrize(("asked", "waits"), [(0.0, 0.0), (7.5, 7.5), (1e9, 86_400.0), (-3, 0.0)])
def test_f043_the_wait_that_was_asked_for_wins_over_the_rule(asked: float, waits: float) -> None:
    assert retry_delay(REST, 1, 0.5, asked) == waits


@pytest.mark.parametrize("base", [0.0, 1e-9, 1e-7])
def test_a_base_too_small_to_count_retries_at_once(base: float) -> None:
    assert retry_delay(RetryRule(frozenset(), 9, base, 2.0, 60.0), 5, 0.5, None) == 0.0
