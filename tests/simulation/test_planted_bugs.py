"""The simulation is worth its time: it finds each bug that is planted into the engine."""

import pytest
from perdure_testkit.simulation import case_of, shrink, simulate
from perdure_testkit.simulation.bugs import BUGS, StaleFence, TimerNeverSet
from perdure_testkit.simulation.store import Bug

MOST_SEEDS = 500
FEW_FAULTS = 20
"""Of a case that is shrunk: where dozens struck together, what is left may need many of them."""


@pytest.mark.parametrize("bug", BUGS, ids=[bug.__name__ for bug in BUGS])
def test_a_planted_bug_is_found_within_500_seeds(bug: type[Bug]) -> None:
    for seed in range(MOST_SEEDS):
        outcome = simulate(case_of(seed), bug())
        if outcome.violation is not None:
            print(f"{bug.__name__}: found after {seed + 1} seeds: {outcome.violation}")
            return
    pytest.fail(f"{bug.__name__} was not found in {MOST_SEEDS} seeds")


@pytest.mark.parametrize("bug", [StaleFence, TimerNeverSet])
def test_a_failing_case_shrinks_and_still_fails(bug: type[Bug]) -> None:
    found = next(
        (case, outcome)
        for case, outcome in (
            (case_of(seed), simulate(case_of(seed), bug())) for seed in range(500)
        )
        if outcome.violation is not None and len(outcome.struck) <= FEW_FAULTS
    )
    case, outcome = shrink(*found, lambda case: simulate(case, bug()))
    assert outcome.violation is not None
    assert simulate(case, bug()) == outcome
    assert len(case.document["nodes"]) <= 4
    assert len(outcome.struck) <= 3
