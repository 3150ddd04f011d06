"""Effects begun just before their calls, each under a lease that outlasts the call (R8, p4).

What an earlier call came to decides: it stands, is waited out, looked up, repeated under its key,
or left to a person. No call is made that its provider would not recognise as one that may have
been performed.
"""

from __future__ import annotations

from uuid import UUID

from perdure_runtime.errors import FailedPrecondition, Reason

from perdure_machine.actions import DropEffectTimer, SetTimer
from perdure_machine.decide.consent import is_suppressed, suppressed_error
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import is_for_a_person, is_forgotten, key_of
from perdure_machine.decide.suspending import (
    give_to_review,
    may_look_up,
    release,
    rouse_waiter,
    wait_for_failover,
    wait_out,
)
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import BeginEffect
from perdure_machine.replacing import replace
from perdure_machine.replies import (
    EffectBegun,
    EffectSettled,
    EffectToLookUp,
    Gone,
    Reply,
    Stopping,
    Suspended,
)
from perdure_machine.states import AttemptOutcome, EffectStatus, StepStatus, TimerKind
from perdure_machine.view import EffectCall, EffectState, StepState, TimerState

MARGIN = 10.0
"""Seconds by which an effect's lease outlasts the longest that its call may take."""

_LATE = 0.1
"""Seconds that a timer comes after the lease that it ends: they are stamped one by one."""

_NOBODY = UUID(int=0)
"""The token of a call that nobody of this database has begun."""

LEASE, A_PERSON, FAILOVER = "lease", "review", "failover"
"""What a suspended step waits for."""


def begin(draft: Draft, event: BeginEffect) -> Reply:
    """Say whether the holder of a step may make a call; a repeat of its token is answered alike.

    Raises `FailedPrecondition` for another request under a key that was used, and `ViewTooNarrow`.
    """
    step = draft.steps.get(event.step)
    if step is None or not _holds(step, event):
        return Gone()
    if not draft.works(step) or step.stopping:
        return Stopping()
    key = key_of(step, event.name)
    effect = draft.whole_effect(key)
    _check_digest(effect, event)
    if event.kind is not EffectKind.PROVIDER and not draft.epoch().is_open:
        wait_for_failover(draft, step, event.jitter)
        return Suspended(FAILOVER)
    return _begin(draft, step, _since_restore(draft, step, effect, event), event)


def lapse(draft: Draft, timer: TimerState) -> None:
    """Note that nobody knows what became of a call whose lease ran out; who waits goes on.

    Raises `ViewTooNarrow`.
    """
    effect = draft.whole_effect((timer.details or b"").decode())
    if effect is None or effect.call is None or effect.status is not EffectStatus.IN_FLIGHT:
        return
    left = effect.call.lease_left or 0.0
    if left > 0:
        _end_lease_after(draft, effect.key, left)
        return
    unknown = rouse_waiter(draft, replace(effect, status=EffectStatus.OUTCOME_UNKNOWN))
    draft.put_effect(unknown)
    draft.record("effect_unknown", draft.steps.get(effect.step), effect=effect.key)


def _begin(draft: Draft, step: StepState, effect: EffectState | None, event: BeginEffect) -> Reply:
    if effect is None or effect.status is EffectStatus.REFUSED:
        return _call(draft, step, effect, event)
    if effect.status is EffectStatus.SETTLED:
        return EffectSettled(effect.key, effect.call.result if effect.call else None)
    if is_for_a_person(effect):
        return _review(draft, step, effect)
    left = effect.call.lease_left if effect.call is not None else None
    if effect.status is EffectStatus.IN_FLIGHT and left is not None and left > 0:
        if _is_repeat(effect, event):
            return EffectBegun(effect, left)
        if effect.kind != EffectKind.PROVIDER:
            release(draft, step)
            wait_out(draft, step, effect)
            return Suspended(LEASE)
    return _resolve(draft, step, effect, event)


def _resolve(draft: Draft, step: StepState, effect: EffectState, event: BeginEffect) -> Reply:
    """Go on from a call of which nobody knows whether it was performed."""
    call = effect.call or EffectCall(_NOBODY, event.digest, event.keep, event.can_look_up)
    keep = call.keep if call.keep is not None else event.keep
    if effect.kind == EffectKind.PROVIDER and not is_forgotten(effect, keep):
        return _call(draft, step, effect, event)
    if effect.status is EffectStatus.OUTCOME_UNKNOWN and _is_repeat(effect, event):
        return EffectToLookUp(effect.key)
    call = replace(
        call, can_look_up=call.can_look_up or event.can_look_up, epoch=_epoch(draft, event)
    )
    if not may_look_up(call):
        return _review(draft, step, replace(effect, call=call))
    return _look_up(draft, step, replace(effect, call=call), event)


def _look_up(
    draft: Draft, step: StepState, effect: EffectState, event: BeginEffect
) -> EffectToLookUp:
    assert effect.call is not None
    lookups = effect.call.lookups + 1
    asked = replace(effect.call, token=event.token, lookups=lookups, lease_left=None)
    status = EffectStatus.OUTCOME_UNKNOWN
    draft.actions.append(DropEffectTimer(effect.key))
    draft.put_effect(replace(effect, status=status, step=step.step, fence=step.fence, call=asked))
    draft.record("effect_looked_up", step, effect=effect.key, lookups=lookups)
    return EffectToLookUp(effect.key)


def _call(draft: Draft, step: StepState, known: EffectState | None, event: BeginEffect) -> Reply:
    if is_suppressed(draft, step):
        error = suppressed_error(step)
        draft.did_nothing = True
        draft.end_attempt(step, AttemptOutcome.FAILED, error=error)
        end_failed(draft, step, error)
        return Suspended()
    lease_for = event.call_for + MARGIN
    call = EffectCall(
        event.token,
        event.digest,
        event.keep,
        event.can_look_up,
        epoch=_epoch(draft, event),
        lease_left=lease_for,
    )
    key = key_of(step, event.name)
    age, calls = (known.age, known.calls) if known is not None else (0.0, 0)
    begun = EffectState(
        key, step.step, event.kind, EffectStatus.IN_FLIGHT, step.fence, calls + 1, age, call
    )
    if known is not None:
        draft.actions.append(DropEffectTimer(key))
    draft.run = replace(draft.run, has_effects=True)
    draft.put_effect(begun, created=known is None, lease_for=lease_for)
    _end_lease_after(draft, key, lease_for)
    draft.record("effect_begun", step, effect=key, declared=str(event.kind), calls=begun.calls)
    return EffectBegun(begun, lease_for)


def _review(draft: Draft, step: StepState, effect: EffectState) -> Suspended:
    release(draft, step)
    draft.actions.append(DropEffectTimer(effect.key))
    give_to_review(draft, step, effect)
    return Suspended(A_PERSON)


def _since_restore(
    draft: Draft, step: StepState, effect: EffectState | None, event: BeginEffect
) -> EffectState | None:
    """Return the effect as unknown where a restored database may have forgotten what it did."""
    if event.kind is EffectKind.PROVIDER or not draft.epoch().goes_back:
        return effect
    if effect is None:
        return _unrecorded(draft, step, event)
    is_old = effect.call is None or effect.call.epoch < draft.epoch().number
    if not is_old or effect.status is EffectStatus.SETTLED or is_for_a_person(effect):
        return effect
    call = None if effect.call is None else replace(effect.call, lease_left=None)
    return replace(effect, status=EffectStatus.OUTCOME_UNKNOWN, call=call)


def _unrecorded(draft: Draft, step: StepState, event: BeginEffect) -> EffectState:
    """Record an effect that may have been performed in a time that the database forgot."""
    call = EffectCall(
        _NOBODY, event.digest, event.keep, event.can_look_up, epoch=_epoch(draft, event)
    )
    unknown = EffectState(
        key_of(step, event.name),
        step.step,
        event.kind,
        EffectStatus.OUTCOME_UNKNOWN,
        step.fence,
        calls=1,
        call=call,
    )
    draft.run = replace(draft.run, has_effects=True)
    return draft.put_effect(unknown, created=True)


def _epoch(draft: Draft, event: BeginEffect) -> int:
    """Return the epoch of a call that its provider would not recognise, 0 for others."""
    return 0 if event.kind is EffectKind.PROVIDER else draft.epoch().number


def _check_digest(effect: EffectState | None, event: BeginEffect) -> None:
    known = effect.call.digest if effect is not None and effect.call is not None else b""
    if effect is not None and known and event.digest and known != event.digest:
        raise FailedPrecondition(
            f"the effect {effect.key} was begun before with another request",
            reason=Reason.EFFECT_MISMATCH,
            metadata={"key": effect.key},
        )


def _holds(step: StepState, event: BeginEffect) -> bool:
    held = (step.fence, step.lease_id) == (event.fence, event.lease_id)
    return step.status is StepStatus.RUNNING and held


def _is_repeat(effect: EffectState, event: BeginEffect) -> bool:
    return effect.call is not None and effect.call.token == event.token


def _end_lease_after(draft: Draft, key: str, seconds: float) -> None:
    draft.actions.append(
        SetTimer(TimerKind.EFFECT_LEASE, None, seconds + _LATE, details=key.encode())
    )
