"""Moves of a step: what the table allows, and what it refuses by name."""

from itertools import product

import pytest
from perdure_machine.states import ENDED, StepStatus
from perdure_machine.transitions import TABLE, IllegalMove, Move, moved
from perdure_machine.view import StepState
from perdure_runtime.errors import Reason

PAIRS = list(product(Move, StepStatus))


def step(status: StepStatus) -> StepState:
    return StepState(7, "a", "task", status, fence=3, failures=2)


@pytest.mark.parametrize(("move", "source"), [(m, s) for m, s in PAIRS if s in TABLE[m].sources])
def test_an_allowed_move_changes_the_status_alone(move: Move, source: StepStatus) -> None:
    assert moved(step(source), move) == step(TABLE[move].target)


@pytest.mark.parametrize(
    ("move", "source"), [(m, s) for m, s in PAIRS if s not in TABLE[m].sources]
)
def test_any_other_move_is_refused_by_name(move: Move, source: StepStatus) -> None:
    with pytest.raises(IllegalMove) as refused:
        moved(step(source), move)
    assert refused.value.reason == Reason.TRANSITION_REFUSED
    assert (refused.value.move, refused.value.step.step) == (move, 7)
    assert f"step 7 is {source}" in refused.value.message


def test_no_move_leads_out_of_an_ended_state_and_one_out_of_every_other() -> None:
    sources = {source for transition in TABLE.values() for source in transition.sources}
    assert sources == set(StepStatus) - ENDED
