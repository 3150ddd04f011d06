"""What becomes of effects that were begun by themselves: told by a worker, or by a report (R8, p4).

That it was performed counts from whoever says so, whatever became of his lease; anything else only
from the newest call or look-up. Who waits for it goes on.
"""

from __future__ import annotations

from perdure_runtime.errors import clean_text

from perdure_machine.actions import DropEffectTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import call_of, effect_of, is_begun, settle_with_report
from perdure_machine.decide.failing import is_exhausted
from perdure_machine.decide.resolving import end_with, is_for, make_known, waiter_for
from perdure_machine.decide.scope import scope_for
from perdure_machine.decide.suspending import (
    give_to_review,
    look_up_later,
    may_look_up,
    release,
    rouse_waiter,
)
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.outside import EffectKind, HttpLookup, Lookup
from perdure_machine.events import SettleEffect
from perdure_machine.expressions import ExpressionFailed, evaluate_bool, render
from perdure_machine.payload import cut
from perdure_machine.replacing import replace
from perdure_machine.replies import (
    EffectRefused,
    EffectSettled,
    EffectUnknown,
    Reply,
    Stale,
    Suspended,
)
from perdure_machine.states import AttemptOutcome, EffectOutcome, EffectStatus, StepStatus
from perdure_machine.view import EffectState, StepState

MAX_NOTE = 1000
"""Characters of what the other side said that are kept."""

_NOT_FOUND = (b"404", b"410")
_UNDECIDED = frozenset(
    {EffectStatus.IN_FLIGHT, EffectStatus.OUTCOME_UNKNOWN, EffectStatus.NEEDS_REVIEW}
)


def settle(draft: Draft, event: SettleEffect) -> Reply:
    """Record what a worker tells of a call or a look-up, and answer what the effect is now.

    Raises `ViewTooNarrow`.
    """
    effect = draft.whole_effect(event.key)
    if effect is None or effect.call is None:
        return Stale()
    if effect.status is EffectStatus.SETTLED:
        return EffectSettled(effect.key, effect.call.result)
    told, result = _told(draft, effect, event)
    note = clean_text(event.note, limit=MAX_NOTE)
    if told is EffectOutcome.PERFORMED:
        return _performed(draft, effect, result, note)
    if effect.call.token != event.token:
        return Stale()
    if effect.status not in _UNDECIDED:
        was_told = effect.status is EffectStatus.REFUSED and told is EffectOutcome.NOT_PERFORMED
        return EffectRefused() if was_told else Stale()
    if told is EffectOutcome.NOT_PERFORMED:
        return _not_performed(draft, effect, note)
    return _unknown(draft, effect, note, event.jitter)


def settle_by_report(
    draft: Draft, step: StepState, fence: int, told: EffectOutcome, result: bytes | None
) -> None:
    """Record what a report says of the call of its step. Raises `ViewTooNarrow`."""
    if not is_begun(draft, step):
        known = effect_of(draft, step)
        settle_with_report(draft, step, fence, told)
        if known is not None and known.status is EffectStatus.NEEDS_REVIEW:
            _end_review(draft, step, result)
        return
    for effect in draft.begun_effects(step.step):
        if effect.fence == fence and effect.status in _UNDECIDED:
            _settle_reported(draft, effect, told, result)


def _end_review(draft: Draft, step: StepState, result: bytes | None) -> None:
    """Let the step go on that waits for a person, if a late report has settled its call."""
    effect = effect_of(draft, step)
    if effect is None or effect.status is not EffectStatus.SETTLED:
        return
    waiter = waiter_for(draft, effect)
    if waiter is None or result is None or is_for(waiter, effect):
        make_known(draft, effect)
    else:
        end_with(draft, waiter, result)


def _settle_reported(
    draft: Draft, effect: EffectState, told: EffectOutcome, result: bytes | None
) -> None:
    match told:
        case EffectOutcome.PERFORMED:
            _settled(draft, effect, result, "")
        case EffectOutcome.NOT_PERFORMED:
            _refused(draft, effect, "")
        case _ if effect.status is EffectStatus.IN_FLIGHT:
            draft.actions.append(DropEffectTimer(effect.key))
            unknown = replace(effect, status=EffectStatus.OUTCOME_UNKNOWN)
            draft.put_effect(rouse_waiter(draft, unknown))


def _performed(draft: Draft, effect: EffectState, result: bytes, note: str) -> EffectSettled:
    _settled(draft, effect, result, note)
    return EffectSettled(effect.key, result)


def _settled(draft: Draft, effect: EffectState, result: bytes | None, note: str) -> None:
    assert effect.call is not None
    call = replace(effect.call, result=result, note=note, lease_left=None)
    settled = replace(effect, status=EffectStatus.SETTLED, call=call)
    draft.actions.append(DropEffectTimer(effect.key))
    make_known(draft, settled)
    draft.record("effect_settled", draft.steps.get(effect.step), effect=effect.key)


def _not_performed(draft: Draft, effect: EffectState, note: str) -> Reply:
    """Let the call be made again, unless its step has had all the tries that it may have."""
    was_unknown = effect.status is not EffectStatus.IN_FLIGHT
    _refused(draft, effect, note)
    step = _holder(draft, effect)
    if not was_unknown or step is None or step.error is None:
        return EffectRefused()
    if not is_exhausted(draft, step, step.error):
        return EffectRefused()
    draft.end_attempt(step, AttemptOutcome.FAILED, error=step.error)
    end_failed(draft, step, step.error)
    return Suspended()


def _refused(draft: Draft, effect: EffectState, note: str) -> None:
    assert effect.call is not None
    call = replace(effect.call, note=note, lease_left=None)
    refused = replace(effect, status=EffectStatus.REFUSED, call=call)
    draft.actions.append(DropEffectTimer(effect.key))
    make_known(draft, refused)
    draft.record("effect_refused", draft.steps.get(effect.step), effect=effect.key)


def _unknown(draft: Draft, effect: EffectState, note: str, jitter: float) -> Reply:
    assert effect.call is not None
    call = replace(effect.call, note=note, lease_left=None)
    unknown = replace(effect, status=EffectStatus.OUTCOME_UNKNOWN, call=call)
    draft.actions.append(DropEffectTimer(effect.key))
    if effect.kind == EffectKind.PROVIDER and effect.call.lookups == 0:
        if effect.status is not EffectStatus.NEEDS_REVIEW:
            draft.put_effect(rouse_waiter(draft, unknown))
        return EffectUnknown()
    if effect.status is EffectStatus.NEEDS_REVIEW:
        return Suspended()
    step = _holder(draft, effect)
    if step is None or not draft.works(step) or step.stopping:
        draft.put_effect(rouse_waiter(draft, unknown))
        return EffectUnknown()
    release(draft, step)
    if may_look_up(call):
        draft.put_effect(unknown)
        look_up_later(draft, step, unknown, jitter)
    else:
        give_to_review(draft, step, unknown)
    return Suspended()


def _holder(draft: Draft, effect: EffectState) -> StepState | None:
    """Return the step whose holder called last, while he holds it. Raises `ViewTooNarrow`."""
    step = draft.step_numbered(effect.step)
    return step if step.status is StepStatus.RUNNING and step.fence == effect.fence else None


def _told(draft: Draft, effect: EffectState, event: SettleEffect) -> tuple[EffectOutcome, bytes]:
    """Return what was told, read from the answer to a look-up where that was."""
    if event.outcome is not EffectOutcome.ANSWERED:
        return event.outcome, event.result
    step = draft.step_numbered(effect.step)
    kind = call_of(draft, step)
    if kind is None or kind.lookup is None:
        return EffectOutcome.UNKNOWN, event.result
    try:
        return _read_answer(draft, step, kind.lookup, event.result)
    except ExpressionFailed:
        return EffectOutcome.UNKNOWN, event.result


def _read_answer(
    draft: Draft, step: StepState, lookup: Lookup, answer: bytes
) -> tuple[EffectOutcome, bytes]:
    expressions = [lookup.found, lookup.output]
    scope = replace(scope_for(draft, step.place, expressions), answer=answer)
    if isinstance(lookup, HttpLookup) and (cut(answer, ("status",)) or b"") in _NOT_FOUND:
        return EffectOutcome.NOT_PERFORMED, answer
    if lookup.found is not None and not evaluate_bool(lookup.found, scope):
        return EffectOutcome.NOT_PERFORMED, answer
    output = answer if lookup.output is None else render(lookup.output, scope)
    return EffectOutcome.PERFORMED, output
