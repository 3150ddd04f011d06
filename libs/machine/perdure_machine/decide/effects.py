"""The one effect of an outside call: in flight with the lease, settled with the report (R8, p4).

A call whose provider honours the key is repeated under it. One of kind `none` is repeated only if
it certainly was not performed; where nobody knows, a person decides and the node fails.
"""

from __future__ import annotations

from perdure_machine.decide.draft import Draft
from perdure_machine.definition.model import Kind
from perdure_machine.definition.outside import CALLS, EffectKind
from perdure_machine.replacing import replace
from perdure_machine.states import EffectOutcome, EffectStatus
from perdure_machine.view import EffectState, StepState

REQUEST = "request"
"""The name of such a node's effect, the last part of its key."""

_RECORDED = frozenset({EffectKind.PROVIDER, EffectKind.NONE})

_AFTER = {
    EffectOutcome.PERFORMED: EffectStatus.SETTLED,
    EffectOutcome.NOT_PERFORMED: EffectStatus.REFUSED,
    EffectOutcome.UNKNOWN: EffectStatus.OUTCOME_UNKNOWN,
}

_UNRESOLVED = frozenset({EffectStatus.OUTCOME_UNKNOWN, EffectStatus.NEEDS_REVIEW})
_OPEN = frozenset({EffectStatus.IN_FLIGHT, EffectStatus.OUTCOME_UNKNOWN})


def is_recorded(kind: Kind) -> bool:
    """Tell whether the calls of nodes of this kind are recorded."""
    return isinstance(kind, CALLS) and kind.effect in _RECORDED


def effect_of(draft: Draft, step: StepState) -> EffectState | None:
    """Return the recorded effect of the step, or None."""
    return draft.effects.get(_key(step))


def begin_effect(draft: Draft, step: StepState) -> EffectState | None:
    """Record that the step's new holder may call the provider, under the key of every try."""
    kind = draft.node(step).kind
    if not isinstance(kind, CALLS) or not is_recorded(kind):
        return None
    known = effect_of(draft, step)
    if known is None:
        begun = EffectState(
            _key(step), step.step, kind.effect, EffectStatus.IN_FLIGHT, step.fence, calls=1
        )
        return draft.put_effect(begun, created=True)
    status = known.status if known.status is EffectStatus.SETTLED else EffectStatus.IN_FLIGHT
    begun = replace(known, step=step.step, status=status, fence=step.fence, calls=known.calls + 1)
    return draft.put_effect(begun)


def refuse_uncalled(draft: Draft, step: StepState) -> None:
    """Record that the call of a step that may not be made was never made."""
    kind = draft.node(step).kind
    if isinstance(kind, CALLS) and is_recorded(kind) and effect_of(draft, step) is None:
        refused = EffectState(
            _key(step), step.step, kind.effect, EffectStatus.REFUSED, step.fence, calls=0
        )
        draft.put_effect(refused, created=True)


def settle_effect(draft: Draft, step: StepState, fence: int, told: EffectOutcome) -> None:
    """Record what the holder of `fence` knows of the effect.

    That the provider did it counts from whoever says so, also after the lease was lost; anything
    else only from the acquisition that began the latest call, and only while that is open.
    """
    known = effect_of(draft, step)
    if known is None or known.status in (EffectStatus.SETTLED, _after(known, told)):
        return
    is_open = (known.step, known.fence) == (step.step, fence) and known.status in _OPEN
    if told is EffectOutcome.PERFORMED or is_open:
        draft.put_effect(replace(known, status=_after(known, told)))


def lose_effect(draft: Draft, step: StepState) -> None:
    """Record that nobody knows how the call of a lost holder ended."""
    known = effect_of(draft, step)
    if known is None or (known.step, known.fence) != (step.step, step.fence):
        return
    if known.status is EffectStatus.IN_FLIGHT:
        draft.put_effect(replace(known, status=_after(known, EffectOutcome.UNKNOWN)))


def give_back_effect(draft: Draft, step: StepState) -> None:
    """Record what a holder that hands its step back says of the call.

    It hands back only what it did not begin, or what the provider's key makes harmless to repeat.
    """
    known = effect_of(draft, step)
    if known is not None and known.kind == EffectKind.NONE:
        settle_effect(draft, step, step.fence, EffectOutcome.NOT_PERFORMED)
    else:
        lose_effect(draft, step)


def may_repeat(draft: Draft, step: StepState) -> bool:
    """Tell whether the step may run again without doing twice what cannot be recognised."""
    known = effect_of(draft, step)
    return known is None or known.kind != EffectKind.NONE or known.status is EffectStatus.REFUSED


def is_forgotten(draft: Draft, step: StepState) -> bool:
    """Tell whether the provider may no longer recognise the key of an unsettled call (p4)."""
    kind, known = draft.node(step).kind, effect_of(draft, step)
    if not isinstance(kind, CALLS) or kind.effect_keep is None or known is None:
        return False
    return known.status in _OPEN and known.age >= kind.effect_keep


def give_to_review(draft: Draft, step: StepState) -> None:
    """Leave it to a person to find out how the step's call ended."""
    known = effect_of(draft, step)
    if known is not None:
        draft.put_effect(replace(known, status=EffectStatus.NEEDS_REVIEW))


def needs_review(draft: Draft, step: StepState) -> bool:
    """Tell whether nobody knows how the step's call ended and only a person can find out."""
    known = effect_of(draft, step)
    return known is not None and known.status is EffectStatus.NEEDS_REVIEW


def is_unresolved(draft: Draft, step: StepState) -> bool:
    """Tell whether nobody knows yet whether the step's call was performed."""
    known = effect_of(draft, step)
    return known is not None and known.status in _UNRESOLVED


def _after(effect: EffectState, told: EffectOutcome) -> EffectStatus:
    if told is EffectOutcome.UNKNOWN and effect.kind == EffectKind.NONE:
        return EffectStatus.NEEDS_REVIEW
    return _AFTER[told]


def _key(step: StepState) -> str:
    return f"{step.effect_prefix}/{REQUEST}"
