"""Some hundreds of seeds hold every law; a seed gives the same trace in every process."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.transitions import TABLE, Move, Transition
from perdure_testkit.simulation import case_of, report, shrink, simulate
from perdure_testkit.simulation.faults import Fault

BATCHES = 8
SEEDS = 50
"""`make test` plays BATCHES times SEEDS seeds; each takes about 20 ms."""

SEEN_SEEDS = 400
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


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_seed_holds_every_law(batch: int) -> None:
    for seed in range(batch * SEEDS, (batch + 1) * SEEDS):
        outcome = simulate(case_of(seed))
        if outcome.violation is not None:
            pytest.fail(report(*shrink(case_of(seed), outcome, simulate)))


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_ten_thousand_seeds_hold_every_law() -> None:
    for seed in range(BATCHES * SEEDS, 10_000):
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


class _Seen(frozenset[StepStatus]):
    """The sources of a move, which keeps those that the move was made from."""

    def __init__(self, _: frozenset[StepStatus]) -> None:
        self.made = set[StepStatus]()

    def __contains__(self, status: object) -> bool:
        found = super().__contains__(status)
        if found and isinstance(status, StepStatus):
            self.made.add(status)
        return found


def test_every_fault_strikes_and_every_row_of_the_transition_table_is_exercised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {move: _Seen(transition.sources) for move, transition in TABLE.items()}
    watched = {move: Transition(seen[move], TABLE[move].target) for move in TABLE}
    monkeypatch.setattr("perdure_machine.transitions.TABLE", watched)
    struck, ends = Counter[Fault](), Counter[RunStatus]()
    for seed in range(SEEN_SEEDS):
        outcome = simulate(case_of(seed))
        struck.update(one.fault for one in outcome.struck)
        ends.update(outcome.ends)
    missing = {(move, one) for move, sources in seen.items() for one in sources - sources.made}
    assert {one for one in missing if one[1] is not StepStatus.PARKED} <= SELDOM
    assert set(struck) == set(Fault)
    assert set(ends) == set(RunStatus) - {RunStatus.RUNNING}
