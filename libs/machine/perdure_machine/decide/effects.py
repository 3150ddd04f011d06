"""Which call of a step has an effect, and the one that rides on its step's lease (R8, p4).

An effect of kind `provider` that its node names nothing else rides: it is in flight with the lease
and settled with the report, and the provider takes a repeat as the same call. All others are begun
by themselves, just before their call; `beginning_effects` and `settling` say how.
"""

from __future__ import annotations

from perdure_machine.decide.draft import Draft
from perdure_machine.definition.model import Kind
from perdure_machine.definition.outside import CALLS, Call, EffectKind
from perdure_machine.replacing import replace
from perdure_machine.states import EffectOutcome, EffectStatus
from perdure_machine.view import EffectState, StepState

REQUEST = "request"
"""The name of the effect of a node that calls outside, the last part of its key."""

_RECORDED = frozenset({EffectKind.PROVIDER, EffectKind.RECONCILE, EffectKind.NONE})

AFTER = {
    EffectOutcome.PERFORMED: EffectStatus.SETTLED,
    EffectOutcome.NOT_PERFORMED: EffectStatus.REFUSED,
    EffectOutcome.UNKNOWN: EffectStatus.OUTCOME_UNKNOWN,
}
"""What an effect is once somebody has told what became of its call."""

UNRESOLVED = frozenset(
    {EffectStatus.OUTCOME_UNKNOWN, EffectStatus.NEEDS_REVIEW, EffectStatus.GIVEN_UP}
)
"""Nobody knows whether it was performed."""

_OPEN = frozenset({EffectStatus.IN_FLIGHT, EffectStatus.OUTCOME_UNKNOWN})
_FOR_A_PERSON = frozenset({EffectStatus.NEEDS_REVIEW, EffectStatus.GIVEN_UP})


def call_of(draft: Draft, step: StepState) -> Call | None:
    """Return the outside call of the step if its effect is recorded, or None."""
    node = draft.definition.nodes.get(step.node)
    kind = node.kind if node is not None else None
    return kind if isinstance(kind, CALLS) and kind.effect in _RECORDED else None


def may_ride(kind: Kind) -> bool:
    """Tell whether the calls of nodes of this kind ride on their steps' leases."""
    return isinstance(kind, CALLS) and kind.effect is EffectKind.PROVIDER


def rides(draft: Draft, step: StepState) -> bool:
    """Tell whether the effect of the step's call is in flight with its lease.

    One whose provider has forgotten its key is begun by itself from then on.
    """
    kind, known = call_of(draft, step), effect_of(draft, step)
    was_provider = known is None or known.kind == EffectKind.PROVIDER
    return kind is not None and may_ride(kind) and was_provider


def is_begun(draft: Draft, step: StepState) -> bool:
    """Tell whether the step has one call, whose effect is begun by itself."""
    return call_of(draft, step) is not None and not rides(draft, step)


def effect_of(draft: Draft, step: StepState) -> EffectState | None:
    """Return the effect of the step's call, or None; without what is kept of it if it was begun."""
    return draft.effects.get(key_of(step))


def begin_with_lease(draft: Draft, step: StepState) -> EffectState:
    """Record that the step's new holder may call the provider, under the key of every try."""
    known = effect_of(draft, step)
    if known is None:
        begun = EffectState(
            key_of(step),
            step.step,
            EffectKind.PROVIDER,
            EffectStatus.IN_FLIGHT,
            step.fence,
            calls=1,
        )
        return draft.put_effect(begun, created=True)
    status = known.status if known.status is EffectStatus.SETTLED else EffectStatus.IN_FLIGHT
    begun = replace(known, step=step.step, status=status, fence=step.fence, calls=known.calls + 1)
    return draft.put_effect(begun)


def refuse_uncalled(draft: Draft, step: StepState) -> None:
    """Record that the call of a step that may not be made was never made."""
    kind = call_of(draft, step)
    if kind is not None and effect_of(draft, step) is None:
        refused = EffectState(
            key_of(step), step.step, kind.effect, EffectStatus.REFUSED, step.fence, calls=0
        )
        draft.put_effect(refused, created=True)


def settle_with_report(draft: Draft, step: StepState, fence: int, told: EffectOutcome) -> None:
    """Record what the holder of `fence` knows of the effect that rides on its lease.

    That the provider did it counts from whoever says so, also after the lease was lost; anything
    else only from the acquisition that began the latest call, and only while that is open.
    """
    known = effect_of(draft, step)
    if known is None or known.call is not None or known.kind != EffectKind.PROVIDER:
        return
    if known.status in (EffectStatus.SETTLED, AFTER[told]):
        return
    is_open = (known.step, known.fence) == (step.step, fence) and known.status in _OPEN
    if told is EffectOutcome.PERFORMED or is_open:
        draft.put_effect(replace(known, status=AFTER[told]))


def lose_with_lease(draft: Draft, step: StepState) -> None:
    """Record that nobody knows how the call of a lost holder ended, if it rode on its lease."""
    known = effect_of(draft, step)
    if known is None or known.kind != EffectKind.PROVIDER or not rides(draft, step):
        return
    is_own = (known.step, known.fence) == (step.step, step.fence)
    if is_own and known.status is EffectStatus.IN_FLIGHT:
        draft.put_effect(replace(known, status=EffectStatus.OUTCOME_UNKNOWN))


def is_forgotten(effect: EffectState, keep: float | None) -> bool:
    """Tell whether the provider may recognise the key no more; it counts from the first call."""
    return keep is not None and effect.age >= keep


def is_for_a_person(effect: EffectState) -> bool:
    """Tell whether only a person can say what became of it."""
    return effect.status in _FOR_A_PERSON


def key_of(step: StepState, name: str = REQUEST) -> str:
    """Return the key of an effect of the step."""
    return f"{step.effect_prefix}/{name}"
