"""Calls of a step that must be known before the step is compensated (design section 8).

One that is open is waited for; one that nobody knows of is left to a person, for whom the
compensation's step waits. What was not performed is not taken back.
"""

from __future__ import annotations

from perdure_machine.actions import PutStep
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import effect_of, rides
from perdure_machine.decide.shaping import shaped
from perdure_machine.decide.suspending import give_to_review, is_in_review, rouse_waiter, unawaited
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import expression_error
from perdure_machine.replacing import replace
from perdure_machine.states import EffectStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import AT_END, EffectCall, EffectState, StepState

_TO_FIND_OUT = frozenset(
    {EffectStatus.IN_FLIGHT, EffectStatus.OUTCOME_UNKNOWN, EffectStatus.NEEDS_REVIEW}
)


def open_for(draft: Draft, step: StepState) -> float:
    """Return how many seconds calls of an ended step may still be open. Raises `ViewTooNarrow`."""
    calls = (one.call for one in effects_of(draft, step) if one.status is EffectStatus.IN_FLIGHT)
    return max((_left(call) for call in calls if call is not None), default=0.0)


def next_to_find_out(draft: Draft, step: StepState) -> EffectState | None:
    """Return a call of a step of which nobody knows what became, None if there is none."""
    return next((one for one in effects_of(draft, step) if one.status in _TO_FIND_OUT), None)


def is_given_up(draft: Draft, step: StepState) -> bool:
    """Tell whether somebody has given up to find out what became of a call of a step."""
    return any(one.status is EffectStatus.GIVEN_UP for one in effects_of(draft, step))


def let_wait(draft: Draft, undo: StepState) -> bool:
    """Park a queued compensation until somebody knows of the call that it takes back.

    Returns whether there is such a call. Raises `ViewTooNarrow`.
    """
    if undo.compensates is None or undo.compensates == AT_END:
        return False
    effect = next_to_find_out(draft, draft.step_numbered(undo.compensates))
    if effect is not None:
        give_to_review(draft, undo, effect)
    return effect is not None


def is_for(undo: StepState, effect: EffectState) -> bool:
    """Tell whether a compensation waits for a call of the step that it takes back."""
    is_own = effect.key.startswith(f"{undo.effect_prefix}/")
    return undo.compensates is not None and not is_own


def make_known(draft: Draft, effect: EffectState) -> None:
    """Write what became of a call; who waits for it goes on. Raises `ViewTooNarrow`."""
    waiter = waiter_for(draft, effect)
    if waiter is not None and is_for(waiter, effect):
        draft.put_effect(unawaited(effect))
        if find_out_next(draft, waiter):
            return
    draft.put_effect(rouse_waiter(draft, effect))


def waiter_for(draft: Draft, effect: EffectState) -> StepState | None:
    """Return the step that is parked until somebody knows. Raises `ViewTooNarrow`."""
    number = effect.step if effect.call is None else effect.call.waiter
    step = draft.step_numbered(number) if number is not None else None
    return step if step is not None and is_in_review(step) else None


def end_with(draft: Draft, step: StepState, result: bytes) -> None:
    """End the step whose one call it was with what that came to."""
    try:
        output = shaped(draft, draft.node(step), step.place, result)
    except ExpressionFailed as failure:
        end_failed(draft, step, expression_error(failure, step.node))
        return
    done = replace(moved(step, Move.STAND), output=output, error=None, parked=None)
    draft.record("step_completed", draft.end_node(PutStep(done, ended=True)))


def find_out_next(draft: Draft, undo: StepState) -> bool:
    """Have a compensation wait for the next call, or skip it if none was performed.

    Returns whether it is settled so. Raises `ViewTooNarrow`.
    """
    assert undo.compensates is not None
    step = draft.step_numbered(undo.compensates)
    following = next_to_find_out(draft, step)
    if following is not None:
        status, call = EffectStatus.NEEDS_REVIEW, following.call
        if call is None:
            draft.put_effect(replace(following, status=status, step=undo.step))
        else:
            call = replace(call, waiter=undo.step)
            draft.put_effect(replace(following, status=status, call=call))
        return True
    if any(one.status is EffectStatus.SETTLED for one in effects_of(draft, step)):
        return False
    ended = replace(moved(undo, Move.CANCEL), parked=None)
    why = "what it takes back was not performed"
    draft.record("step_cancelled", draft.end_node(PutStep(ended, ended=True)), why=why)
    return True


def effects_of(draft: Draft, step: StepState) -> list[EffectState]:
    """Return the effects of a step. Raises `ViewTooNarrow`."""
    riding = effect_of(draft, step)
    if riding is not None and rides(draft, step):
        return [riding]
    return draft.begun_effects(step.step)


def _left(call: EffectCall) -> float:
    return call.lease_left or 0.0
