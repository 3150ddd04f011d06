"""Some hundreds of seeds hold every law; a seed gives the same trace in every process."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.transitions import TABLE, Move, Transition
from perdure_testkit.simulation import case_of, report, shrink, simulate
from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.world import Outcome

SEEDS = 400
"""Seeds that `make test` plays; each takes about 20 ms."""

SELDOM = {
    (Move.FAIL, StepStatus.BACKING_OFF),
    (Move.CATCH, StepStatus.BACKING_OFF),
    (Move.CATCH, StepStatus.QUEUED),
    (Move.REFUSE, StepStatus.RUNNING),
}
"""Rows that need a chain of chances, or connections, which are not simulated; tests/conformance has
them on purpose."""

DIGESTS = """
from perdure_testkit.simulation import case_of, simulate
print([simulate(case_of(seed)).digest for seed in range(12)])
"""


class _Seen(frozenset[StepStatus]):
    """The sources of a move, which keeps those that the move was made from."""

    def __init__(self, _: frozenset[StepStatus]) -> None:
        self.made = set[StepStatus]()

    def __contains__(self, status: object) -> bool:
        found = super().__contains__(status)
        if found and isinstance(status, StepStatus):
            self.made.add(status)
        return found


@dataclass(frozen=True, slots=True)
class _Played:
    """How each seed ended, and which moves were made from which states on the way."""

    outcomes: list[Outcome]
    seen: dict[Move, _Seen]


@pytest.fixture(scope="module")
def played() -> _Played:
    """What becomes of the seeds, played once for all tests that look at it."""
    seen = {move: _Seen(transition.sources) for move, transition in TABLE.items()}
    watched = {move: Transition(seen[move], TABLE[move].target) for move in TABLE}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("perdure_machine.transitions.TABLE", watched)
        outcomes = [simulate(case_of(seed)) for seed in range(SEEDS)]
    return _Played(outcomes, seen)


@pytest.mark.timeout(300)
def test_every_seed_holds_every_law(played: _Played) -> None:
    for seed, outcome in enumerate(played.outcomes):
        if outcome.violation is not None:
            pytest.fail(report(*shrink(case_of(seed), outcome, simulate)))


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_ten_thousand_seeds_hold_every_law() -> None:
    for seed in range(SEEDS, 10_000):
        outcome = simulate(case_of(seed))
        if outcome.violation is not None:
            pytest.fail(report(*shrink(case_of(seed), outcome, simulate)))


@pytest.mark.parametrize("seed", [1, 31, 78, 185])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = simulate(case_of(seed)), simulate(case_of(seed))
    assert first.digest == second.digest
    assert first == second


def test_a_trace_does_not_depend_on_the_process() -> None:
    """Nothing in a decision follows the order of a set, which differs from process to process."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": str(salt)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in (1, 2)
    }
    assert len(digests) == 1


def test_other_seeds_go_other_ways() -> None:
    assert len({simulate(case_of(seed)).digest for seed in range(20)}) == 20


@pytest.mark.timeout(300)
def test_every_fault_strikes_and_every_row_of_the_transition_table_is_exercised(
    played: _Played,
) -> None:
    struck = Counter(one.fault for outcome in played.outcomes for one in outcome.struck)
    ends = Counter(end for outcome in played.outcomes for end in outcome.ends)
    made = {(move, one) for move, sources in played.seen.items() for one in sources.made}
    rows = {(move, one) for move, sources in played.seen.items() for one in sources}
    missing = rows - made
    assert {one for one in missing if one[1] is not StepStatus.PARKED} <= SELDOM
    assert set(struck) == set(Fault)
    assert set(ends) == set(RunStatus) - {RunStatus.RUNNING}
