"""Calls that an earlier try of a whole has made: a settled one stands (R8, design section 12).

The keys of a step's effects are the same in every try of the whole around it, so what became of
them there counts here.
"""

from __future__ import annotations

from perdure_machine.actions import PutStep
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import effect_of, may_ride, rides
from perdure_machine.definition.model import Kind
from perdure_machine.places import Place
from perdure_machine.replacing import replace
from perdure_machine.states import EffectStatus, StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import StepState, ViewTooNarrow, Wanted


def may_have_been_called(kind: Kind, place: Place) -> bool:
    """Tell whether an earlier try of a whole may have made a call that rode on its lease."""
    return place.generation > 0 and may_ride(kind)


def stand(draft: Draft, step: StepState) -> bool:
    """Complete a queued step whose call an earlier try of the whole has made, with its output.

    Returns whether that was so. Raises `ViewTooNarrow`.
    """
    known = effect_of(draft, step)
    if known is None or known.step == step.step or known.status is not EffectStatus.SETTLED:
        return False
    if not rides(draft, step):  # its holder asks, and is told what the call came to
        return False
    earlier = _with_output(draft, known.step)
    if earlier.status is not StepStatus.COMPLETED:
        return False
    done = replace(moved(step, Move.STAND), output=earlier.output)
    draft.record("step_stands", draft.end_node(PutStep(done, ended=True)))
    return True


def _with_output(draft: Draft, number: int) -> StepState:
    step = draft.steps.get(number)
    if step is None:
        raise ViewTooNarrow(Wanted(steps=frozenset({number})))
    draft.require([step.at], outputs=[step.at])
    return draft.steps[number]
