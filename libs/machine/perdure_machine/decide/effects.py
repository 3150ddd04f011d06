"""The one effect of an http node: in flight with the lease, settled with the report (R8, p4)."""

from __future__ import annotations

from dataclasses import replace

from perdure_machine.decide.draft import Draft
from perdure_machine.definition.model import EffectKind, Http
from perdure_machine.states import EffectOutcome, EffectStatus
from perdure_machine.view import EffectState, StepState

REQUEST = "request"
"""The name of an http node's effect, the last part of its key."""

_AFTER = {
    EffectOutcome.PERFORMED: EffectStatus.SETTLED,
    EffectOutcome.NOT_PERFORMED: EffectStatus.REFUSED,
    EffectOutcome.UNKNOWN: EffectStatus.OUTCOME_UNKNOWN,
}

_OPEN = frozenset({EffectStatus.IN_FLIGHT, EffectStatus.OUTCOME_UNKNOWN})


def effect_of(draft: Draft, step: StepState) -> EffectState | None:
    """Return the recorded effect of the step, or None."""
    return draft.effects.get(_key(step))


def begin_effect(draft: Draft, step: StepState) -> EffectState | None:
    """Record that the step's new holder may call the provider, under the key of every try."""
    kind = draft.node(step).kind
    if not isinstance(kind, Http) or kind.effect is not EffectKind.PROVIDER:
        return None
    known = effect_of(draft, step)
    if known is None:
        begun = EffectState(
            _key(step), step.step, kind.effect, EffectStatus.IN_FLIGHT, step.fence, calls=1
        )
        return draft.put_effect(begun, created=True)
    status = known.status if known.status is EffectStatus.SETTLED else EffectStatus.IN_FLIGHT
    return draft.put_effect(replace(known, status=status, fence=step.fence, calls=known.calls + 1))


def settle_effect(draft: Draft, step: StepState, fence: int, told: EffectOutcome) -> None:
    """Record what the holder of `fence` knows of the effect.

    That the provider did it counts from whoever says so, also after the lease was lost; anything
    else only from the acquisition that began the latest call, and only while that is open.
    """
    known = effect_of(draft, step)
    if known is None or known.status in (EffectStatus.SETTLED, _AFTER[told]):
        return
    is_open = known.fence == fence and known.status in _OPEN
    if told is EffectOutcome.PERFORMED or is_open:
        draft.put_effect(replace(known, status=_AFTER[told]))


def lose_effect(draft: Draft, step: StepState) -> None:
    """Record that nobody knows how the call of a lost holder ended."""
    known = effect_of(draft, step)
    if known is not None and known.status is EffectStatus.IN_FLIGHT and known.fence == step.fence:
        draft.put_effect(replace(known, status=EffectStatus.OUTCOME_UNKNOWN))


def _key(step: StepState) -> str:
    return f"{step.effect_prefix}/{REQUEST}"
