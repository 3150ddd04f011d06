"""What must hold of effects: one key for ever, final once settled, told by who may tell (R8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from perdure_machine.events import (
    DecideEffect,
    Event,
    ExpireLease,
    NotPerformed,
    Performed,
    Release,
    Report,
    SettleEffect,
    Succeeded,
)
from perdure_machine.states import EffectOutcome, EffectStatus
from perdure_machine.view import EffectState, StepState

from perdure_testkit.simulation.scene import Violation


def check_effects(
    before: Mapping[str, EffectState],
    now: Mapping[str, EffectState],
    steps: Collection[StepState],
    events: Sequence[Event],
) -> None:
    """Compare the effects of a run before a batch and after it. Raises `Violation`."""
    if not before.keys() <= now.keys():
        raise Violation("R8: an effect was forgotten")
    for key, effect in now.items():
        old = before.get(key)
        if old is None or old == effect:
            continue
        if old.kind != effect.kind or effect.calls < old.calls:
            raise Violation(f"R8: effect {key} became another's")
        if old.status is EffectStatus.SETTLED and effect.status is not EffectStatus.SETTLED:
            raise Violation(f"R8: effect {key} was settled and is {effect.status}")
        _check_teller(old, effect, steps, events)


def _check_teller(
    old: EffectState, new: EffectState, steps: Collection[StepState], events: Sequence[Event]
) -> None:
    """See that somebody told what the effect became who was in a position to know.

    Its callers are the steps that have its key: one for each try of a whole.
    """
    if old.status is new.status:
        return
    prefix = new.key.rpartition("/")[0]
    callers = [one.step for one in steps if one.effect_prefix == prefix and one.fence]
    said_so = any(_told(event, callers) is EffectOutcome.PERFORMED for event in events)
    if new.status is EffectStatus.SETTLED and not (
        said_so or _told_by_key(new.key, events, EffectOutcome.PERFORMED, Performed)
    ):
        raise Violation(f"R8: nobody said that {new.key} was performed, and it is settled")
    said_so = any(
        _told(event, callers[-1:]) is EffectOutcome.NOT_PERFORMED and _fence(event) == old.fence
        for event in events
    )
    if new.status is EffectStatus.REFUSED and not (
        said_so or _told_by_key(new.key, events, EffectOutcome.NOT_PERFORMED, NotPerformed)
    ):
        raise Violation(f"R8: {new.key} is refused, which its newest caller did not say")


def _told_by_key(
    key: str,
    events: Sequence[Event],
    outcome: EffectOutcome,
    decision: type[Performed] | type[NotPerformed],
) -> bool:
    """Tell whether somebody said so who began the call, looked it up or is a person."""
    return any(
        (isinstance(event, SettleEffect) and (event.key, event.outcome) == (key, outcome))
        or (
            isinstance(event, DecideEffect)
            and event.key == key
            and isinstance(event.decision, decision)
        )
        for event in events
    )


def _told(event: Event, steps: Collection[int]) -> EffectOutcome | None:
    match event:
        case Report() if event.step in steps:
            well = isinstance(event.outcome, Succeeded)
            return event.effect or (EffectOutcome.PERFORMED if well else EffectOutcome.UNKNOWN)
        case _:
            return None


def _fence(event: Event) -> int | None:
    return event.fence if isinstance(event, Report | Release | ExpireLease) else None
