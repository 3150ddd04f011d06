"""What must hold of effects: one key for ever, final once settled, told by who may tell (R8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure_machine.events import Event, ExpireLease, Release, Report, Succeeded
from perdure_machine.states import EffectOutcome, EffectStatus
from perdure_machine.view import EffectState

from perdure_testkit.simulation.scene import Violation


def check_effects(
    before: Mapping[str, EffectState], now: Mapping[str, EffectState], events: Sequence[Event]
) -> None:
    """Compare the effects of a run before a batch and after it. Raises `Violation`."""
    if not before.keys() <= now.keys():
        raise Violation("R8: an effect was forgotten")
    for key, effect in now.items():
        old = before.get(key)
        if old is None or old == effect:
            continue
        if (old.step, old.kind) != (effect.step, effect.kind) or effect.calls < old.calls:
            raise Violation(f"R8: effect {key} became another's")
        if old.status is EffectStatus.SETTLED and effect.status is not EffectStatus.SETTLED:
            raise Violation(f"R8: effect {key} was settled and is {effect.status}")
        _check_teller(old, effect, events)


def _check_teller(old: EffectState, new: EffectState, events: Sequence[Event]) -> None:
    """See that somebody told what the effect became who was in a position to know."""
    if old.status is new.status:
        return
    if new.status is EffectStatus.SETTLED and not any(
        _told(event, new.step) is EffectOutcome.PERFORMED for event in events
    ):
        raise Violation(f"R8: nobody said that {new.key} was performed, and it is settled")
    if new.status is EffectStatus.REFUSED and not any(
        _told(event, new.step) is EffectOutcome.NOT_PERFORMED and _fence(event) == old.fence
        for event in events
    ):
        raise Violation(f"R8: {new.key} is refused, which its newest caller did not say")


def _told(event: Event, step: int) -> EffectOutcome | None:
    match event:
        case Report() if event.step == step:
            well = isinstance(event.outcome, Succeeded)
            return event.effect or (EffectOutcome.PERFORMED if well else EffectOutcome.UNKNOWN)
        case Release() if event.step == step:
            return EffectOutcome.NOT_PERFORMED
        case _:
            return None


def _fence(event: Event) -> int | None:
    return event.fence if isinstance(event, Report | Release | ExpireLease) else None
