"""What a person decides about an effect of which nobody else can say what became of it (p4, p8).

The first decision stands. No door claims that an outside action was undone: a person says what he
has found out, or lets the step fail.
"""

from __future__ import annotations

from perdure_runtime.errors import FailedPrecondition, NotFound, Reason

from perdure_machine.actions import DropEffectTimer, RecordDecision
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import call_of, is_forgotten
from perdure_machine.decide.resolving import end_with, is_for, make_known, waiter_for
from perdure_machine.decide.suspending import unawaited
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import DecideEffect, GivenUp, NotPerformed, Performed
from perdure_machine.replacing import replace
from perdure_machine.replies import Done, Reply
from perdure_machine.states import ENDED, EffectStatus
from perdure_machine.view import EffectState, StepState

_DECIDED = {
    Performed: EffectStatus.SETTLED,
    NotPerformed: EffectStatus.REFUSED,
    GivenUp: EffectStatus.GIVEN_UP,
}


def decide_effect(draft: Draft, event: DecideEffect) -> Reply:
    """Apply a person's decision about an effect.

    Raises `NotFound`, `FailedPrecondition` for one that nobody is asked about or whose key is not
    safe to use again, and `ViewTooNarrow`.
    """
    effect = draft.whole_effect(event.key)
    if effect is None:
        raise NotFound(f"the run has no effect {event.key}", reason=Reason.EFFECT_NOT_FOUND)
    status = _DECIDED[type(event.decision)]
    if _is_so(effect, status, event):
        return Done(changed=False)
    _check_undecided(draft, effect)
    _check_key(draft, effect, event)
    draft.actions += [
        DropEffectTimer(effect.key),
        RecordDecision(effect.key, str(status), event.actor, event.reason),
    ]
    waiter = waiter_for(draft, effect)
    draft.record(
        "effect_decided",
        waiter or draft.steps.get(effect.step),
        effect=effect.key,
        decision=str(status),
        actor=event.actor,
        reason=event.reason,
    )
    _apply(draft, replace(effect, status=status), event, waiter)
    return Done(changed=True)


def _apply(
    draft: Draft, effect: EffectState, event: DecideEffect, waiter: StepState | None
) -> None:
    match event.decision:
        case Performed(result):
            if effect.call is not None:
                effect = replace(effect, call=replace(effect.call, result=result))
            if waiter is None or is_for(waiter, effect) or call_of(draft, waiter) is None:
                make_known(draft, effect)
                return
            draft.put_effect(unawaited(effect))
            end_with(draft, waiter, result)
        case NotPerformed():
            make_known(draft, effect)
        case GivenUp(error):
            draft.put_effect(unawaited(effect))
            if waiter is not None:
                end_failed(draft, waiter, replace(error, node=waiter.node))


def _is_so(effect: EffectState, status: EffectStatus, event: DecideEffect) -> bool:
    """Tell whether the same was decided before."""
    if effect.status is not status:
        return False
    if not isinstance(event.decision, Performed):
        return True
    return effect.call is not None and effect.call.result == event.decision.result


def _check_undecided(draft: Draft, effect: EffectState) -> None:
    if effect.status is EffectStatus.NEEDS_REVIEW:
        return
    is_open = effect.status in (EffectStatus.IN_FLIGHT, EffectStatus.OUTCOME_UNKNOWN)
    if effect.status is EffectStatus.OUTCOME_UNKNOWN and _is_left(draft, effect):
        return
    raise FailedPrecondition(
        f"the effect {effect.key} is {effect.status.replace('_', ' ')}",
        reason=Reason.EFFECT_OPEN if is_open else Reason.EFFECT_DECIDED,
        metadata={"key": effect.key, "status": effect.status},
    )


def _is_left(draft: Draft, effect: EffectState) -> bool:
    """Tell whether no try will find out what became of it, because its step has ended."""
    step = draft.step_numbered(effect.step)
    return step.status in ENDED or not draft.works(step)


def _check_key(draft: Draft, effect: EffectState, event: DecideEffect) -> None:
    if not isinstance(event.decision, NotPerformed) or event.decision.although_key_expired:
        return
    kind = call_of(draft, draft.step_numbered(effect.step))
    keep = effect.call.keep if effect.call is not None else kind.effect_keep if kind else None
    if effect.kind == EffectKind.PROVIDER and is_forgotten(effect, keep):
        raise FailedPrecondition(
            f"the provider may keep {effect.key} no longer, so it would not recognise a repeat",
            reason=Reason.EFFECT_KEY_EXPIRED,
            metadata={"key": effect.key},
        )
