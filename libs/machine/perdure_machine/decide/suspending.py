"""Steps that wait without a worker for what becomes of a call: its lease, a look-up, a person (p4).

Whoever held the step holds it no more: its try is over, and neither failed nor was lost by this.
"""

from __future__ import annotations

from perdure_runtime.backoff import full_jitter

from perdure_machine.actions import DropStepTimers, Enqueue, ExpectedExpiry, PutStep, SetTimer
from perdure_machine.decide.connecting import connection_of
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import is_for_a_person, rides
from perdure_machine.decide.parking import unpark
from perdure_machine.definition.outside import EffectKind
from perdure_machine.replacing import replace
from perdure_machine.states import AttemptOutcome, EffectStatus, StepStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import EffectCall, EffectState, Parked, StepState

REVIEW = "review"
"""The cause that stands while a person is to find out what became of a step's call."""

MAX_LOOKUPS = 8
"""Look-ups of one call that tell nothing before a person is asked."""

FAILOVER_SECONDS = 15.0
"""How long a step waits before it asks again whether calls may begin on this database."""

_LOOKUP_BASE, _LOOKUP_CAP = 1.0, 300.0
_LATE = 0.1
"""Seconds that a timer comes after the lease that it waits out: they are stamped one by one."""


def wait_out(
    draft: Draft, step: StepState, effect: EffectState, expired: ExpectedExpiry | None = None
) -> None:
    """Let a running step wait, without a slot, until another's call is over."""
    assert effect.call is not None
    left = max(effect.call.lease_left or 0.0, 0.0)
    waits = draft.put_step(PutStep(moved(step, Move.WAIT_OUT), expired=expired))
    draft.actions.append(SetTimer(TimerKind.EFFECT_WAIT, step.step, left + _LATE))
    _await(draft, effect, step)
    draft.record("effect_awaited", waits, effect=effect.key, seconds=round(left, 3))


def give_to_review(
    draft: Draft, step: StepState, effect: EffectState, expired: ExpectedExpiry | None = None
) -> None:
    """Park a step that is queued or runs until a person has found out what became of its call."""
    _await(draft, replace(effect, status=EffectStatus.NEEDS_REVIEW), step)
    stopped = moved(step, Move.REVIEW)
    parked = replace(stopped, parked=Parked(REVIEW, effect.calls, StepStatus.QUEUED))
    draft.put_step(PutStep(parked, expired=expired))
    draft.record("effect_in_review", parked, effect=effect.key, calls=effect.calls)


def look_up_later(
    draft: Draft,
    step: StepState,
    effect: EffectState,
    jitter: float,
    expired: ExpectedExpiry | None = None,
) -> None:
    """Let a running step back off: its next holder looks up what became of the call."""
    lookups = effect.call.lookups if effect.call is not None else 0
    delay = full_jitter(lookups + 1, _LOOKUP_BASE, 2.0, _LOOKUP_CAP, jitter)
    back = draft.put_step(PutStep(moved(step, Move.BACK_OFF), expired=expired))
    draft.actions.append(SetTimer(TimerKind.RETRY, step.step, delay))
    draft.record("effect_to_look_up", back, effect=effect.key, lookups=lookups, seconds=delay)


def wait_for_failover(draft: Draft, step: StepState, jitter: float) -> None:
    """Let a running step back off until an operator has said what the database forgot."""
    release(draft, step)
    back = draft.put_step(PutStep(moved(step, Move.BACK_OFF)))
    delay = FAILOVER_SECONDS * (0.5 + jitter)
    draft.actions.append(SetTimer(TimerKind.RETRY, step.step, delay))
    draft.record("failover_awaited", back, seconds=delay)


def suspend_for_call(
    draft: Draft,
    step: StepState,
    jitter: float,
    expired: ExpectedExpiry | None = None,
) -> bool:
    """Let a step whose try is over wait for what becomes of a call; return whether it does."""
    effect = next((one for one in _begun(draft, step) if _matters(one)), None)
    if effect is None:
        return False
    assert effect.call is not None
    if effect.status is EffectStatus.IN_FLIGHT and (effect.call.lease_left or 0.0) > 0:
        wait_out(draft, step, effect, expired)
    elif not is_for_a_person(effect) and may_look_up(effect.call):
        unknown = replace(effect, status=EffectStatus.OUTCOME_UNKNOWN)
        if unknown != effect:
            draft.put_effect(unknown)
        look_up_later(draft, step, unknown, jitter, expired)
    else:
        give_to_review(draft, step, effect, expired)
    return True


def may_look_up(call: EffectCall) -> bool:
    """Tell whether a worker may find out what became of a call, once more."""
    return call.can_look_up and call.lookups < MAX_LOOKUPS


def release(draft: Draft, step: StepState) -> None:
    """End the try of a step that is suspended: its worker did nothing wrong."""
    draft.end_attempt(step, AttemptOutcome.RELEASED)


def rouse_waiter(draft: Draft, effect: EffectState) -> EffectState:
    """Let the step go on that waits for what has become of the effect; return it without one.

    Raises `ViewTooNarrow`.
    """
    number = effect.step if effect.call is None else effect.call.waiter
    if number is None:
        return effect
    step = draft.step_numbered(number)
    if step.status is StepStatus.WAITING and effect.call is not None:
        call_again(draft, step)
    elif is_in_review(step):
        unpark(draft, step)
    return unawaited(effect)


def unawaited(effect: EffectState) -> EffectState:
    """Return the effect with no step that waits for it."""
    if effect.call is None:
        return effect
    return replace(effect, call=replace(effect.call, waiter=None))


def call_again(draft: Draft, step: StepState) -> None:
    """Queue a step that waited out another's call."""
    draft.actions.append(DropStepTimers(step.step, deadline=False))
    again = draft.put_step(PutStep(moved(step, Move.CALL_AGAIN)))
    draft.record("step_queued", again)
    draft.actions.append(Enqueue(step.step, connection_of(draft, again)))


def is_in_review(step: StepState) -> bool:
    """Tell whether the step waits for a person's decision about a call."""
    return step.parked is not None and step.parked.cause == REVIEW


def _begun(draft: Draft, step: StepState) -> list[EffectState]:
    """Return what the step has begun and must be known before it goes on, or ends."""
    return [] if rides(draft, step) else draft.begun_effects(step.step)


def _matters(effect: EffectState) -> bool:
    """Tell whether nobody knows what became of a call that its provider would not recognise."""
    is_open = effect.status not in (EffectStatus.SETTLED, EffectStatus.REFUSED)
    return is_open and effect.kind != EffectKind.PROVIDER


def _await(draft: Draft, effect: EffectState, step: StepState) -> None:
    if effect.call is None:
        draft.put_effect(replace(effect, step=step.step))
    else:
        draft.put_effect(replace(effect, call=replace(effect.call, waiter=step.step)))
