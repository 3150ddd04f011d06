"""Bugs planted from outside, to prove that the simulation finds such.

Each is one that an engine of this kind could have: what it misreads, or does not write. None of it
is in the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from uuid import UUID

from perdure_machine.actions import (
    Action,
    Enqueue,
    KeyMove,
    MoveKey,
    PutStep,
    SetTimer,
    StoreSignal,
    TakeSignal,
)
from perdure_machine.decide import Decision
from perdure_machine.events import Acquire, BeginEffect, Event, Release, Report, SendSignal
from perdure_machine.states import EffectStatus, StepStatus, TimerKind
from perdure_machine.view import StepState, View

from perdure_testkit.simulation.store import Bug

_LOCK_WAIT = 1.0
"""Seconds that a decision may have waited for its run's lock."""


class LostJoin(Bug):
    """A decision that waited for the lock sees siblings as they were before it waited (R1)."""

    def __init__(self) -> None:
        self._before: dict[UUID, tuple[float, View]] = {}

    def sees(self, view: View, event: Event, now: float) -> tuple[View, Event]:
        """Show siblings that have just ended as running."""
        at, before = self._before.get(view.run.run_id, (0.0, view))
        self._before[view.run.run_id] = (now, view)
        if not isinstance(event, Report) or now - at > _LOCK_WAIT:
            return view, event
        steps = {
            number: before.steps[number]
            if number != event.step and _has_just_ended(before, step)
            else step
            for number, step in view.steps.items()
        }
        return replace(view, steps=steps), event


class DoubleLease(Bug):
    """A second hint finds its step queued although somebody else has leased it."""

    def sees(self, view: View, event: Event, now: float) -> tuple[View, Event]:
        """Show a leased step as queued to another worker."""
        step = view.steps.get(event.step) if isinstance(event, Acquire) else None
        if step is None or step.status is not StepStatus.RUNNING:
            return view, event
        return _with_step(view, replace(step, status=StepStatus.QUEUED)), event


class StaleFence(Bug):
    """A report counts whoever sends it."""

    def sees(self, view: View, event: Event, now: float) -> tuple[View, Event]:
        """Show a stale report as that of the holder."""
        step = view.steps.get(event.step) if isinstance(event, Report) else None
        if step is None or step.status is not StepStatus.RUNNING or step.lease_id is None:
            return view, event
        assert isinstance(event, Report)
        return view, replace(event, fence=step.fence, lease_id=step.lease_id)


class AppliedTwice(Bug):
    """A repeated report finds its step still running."""

    def sees(self, view: View, event: Event, now: float) -> tuple[View, Event]:
        """Show a step that the report has ended as running."""
        step = view.steps.get(event.step) if isinstance(event, Report) else None
        if step is None or step.status is not StepStatus.COMPLETED:
            return view, event
        return _with_step(view, replace(step, status=StepStatus.RUNNING)), event


class LiveLeaseTaken(Bug):
    """Taking a lease away does not check again that it ran out (R6)."""

    def does(self, decision: Decision, event: Event) -> Decision:
        """Drop the check from the write."""
        actions = tuple(
            replace(action, expired=None) if isinstance(action, PutStep) else action
            for action in decision.actions
        )
        return replace(decision, actions=actions)


class TimerNeverSet(Bug):
    """The second retry of a step sets no timer."""

    def does(self, decision: Decision, event: Event) -> Decision:
        """Drop the timer."""

        def forgotten(action: Action) -> bool:
            return (
                isinstance(action, SetTimer)
                and action.kind is TimerKind.RETRY
                and action.step is not None
                and decision.view.steps[action.step].failures > 1
            )

        return _without(decision, forgotten)


class OutboxRowMissing(Bug):
    """A step that was handed back is queued without an outbox row (R3)."""

    def does(self, decision: Decision, event: Event) -> Decision:
        """Drop the row."""
        if not isinstance(event, Release):
            return decision
        return _without(decision, lambda action: isinstance(action, Enqueue))


class StepsLeftBehind(Bug):
    """A run that closes forgets to end its steps."""

    def does(self, decision: Decision, event: Event) -> Decision:
        """Drop the internal event."""
        return _without(
            decision,
            lambda action: isinstance(action, SetTimer) and action.kind is TimerKind.END_STEPS,
        )


class DroppedSignal(Bug):
    """A signal that comes before its wait is acknowledged and not stored."""

    def does(self, decision: Decision, event: Event) -> Decision:
        """Drop the signal."""
        taken = any(isinstance(action, TakeSignal) for action in decision.actions)
        if not isinstance(event, SendSignal) or taken:
            return decision
        return _without(decision, lambda action: isinstance(action, StoreSignal))


class StaleHolderSettles(Bug):
    """What a lost holder says of its call counts for the call of the newest one (R8)."""

    def sees(self, view: View, event: Event, now: float) -> tuple[View, Event]:
        """Show the effect as begun by the reporter."""
        if not isinstance(event, Report):
            return view, event
        effects = {
            key: replace(effect, fence=event.fence) if effect.step == event.step else effect
            for key, effect in view.effects.items()
        }
        return replace(view, effects=effects), event


class CallRepeated(Bug):
    """A call that its provider cannot recognise is made again when its worker was lost (R8)."""

    def sees(self, view: View, event: Event, now: float) -> tuple[View, Event]:
        """Show the call as refused to who is about to make it."""
        if not isinstance(event, BeginEffect):
            return view, event
        effects = {
            key: replace(effect, status=EffectStatus.REFUSED)
            if effect.kind != "provider" and effect.status is not EffectStatus.SETTLED
            else effect
            for key, effect in view.effects.items()
        }
        return replace(view, effects=effects), event


class StartKeyForgotten(Bug):
    """A start does not claim its key (p7)."""

    def start_key(self, key: str) -> str | None:
        """Claim nothing."""
        return None


class ChildStartedTwice(Bug):
    """A child is started under another key each time that its parent asks."""

    def __init__(self) -> None:
        self._numbers = count()

    def child_key(self, key: str) -> str:
        """Return a new key."""
        return f"{key}/{next(self._numbers)}"


class HandOverForgotten(Bug):
    """A run that ends keeps its exclusive key from those that wait for it."""

    def does(self, decision: Decision, event: Event) -> Decision:
        """Do not write that the key is handed over, nor tell the next."""
        if not any(isinstance(one, MoveKey) for one in decision.actions):
            return decision
        return _without(decision, _hands_over)


BUGS: tuple[type[Bug], ...] = (
    LostJoin,
    DoubleLease,
    StaleFence,
    AppliedTwice,
    LiveLeaseTaken,
    TimerNeverSet,
    OutboxRowMissing,
    StepsLeftBehind,
    DroppedSignal,
    StaleHolderSettles,
    CallRepeated,
    StartKeyForgotten,
    ChildStartedTwice,
    HandOverForgotten,
)
"""Every planted bug."""


def _has_just_ended(before: View, step: StepState) -> bool:
    old = before.steps.get(step.step)
    return (
        old is not None and old.status is StepStatus.RUNNING and step.status is StepStatus.COMPLETED
    )


def _hands_over(action: Action) -> bool:
    if isinstance(action, MoveKey):
        return action.move is KeyMove.PASS
    return isinstance(action, SetTimer) and action.kind is TimerKind.BEGIN


def _with_step(view: View, step: StepState) -> View:
    return replace(view, steps={**view.steps, step.step: step})


def _without(decision: Decision, forgotten: Callable[[Action], bool]) -> Decision:
    kept = tuple(action for action in decision.actions if not forgotten(action))
    return replace(decision, actions=kept)
