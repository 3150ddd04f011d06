"""Steps that are stopped on purpose, for a cause that a person can act on, and come back (p8).

A parked step knows its cause, the cause's generation and the state that it comes back to; its
timers stay. A run's pause is such a cause: it parks what is not running, some at a time, and what
runs when that reports. Nothing begins in a paused run, and timers that come due are held. A timer
that cannot be delivered is another: it parks the step that goes on by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure_machine.actions import Dequeue, Enqueue, HoldTimer, LetTimersGo, PutStep, SetTimer
from perdure_machine.decide.connecting import connection_of
from perdure_machine.decide.draft import Draft
from perdure_machine.definition.model import BLOCKS, ChildRun, Signal
from perdure_machine.events import ParkOnTimer, PauseRun, ResumeRun
from perdure_machine.places import TOP
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Closed, Done, Reply, Stale
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.transitions import TABLE, Move, moved
from perdure_machine.view import Parked, StepState, TimerState, ViewTooNarrow, Wanted

MAX_MOVED_AT_ONCE = 500
"""Steps that one internal event parks, brings back or ends (design section 12)."""

PAUSE = "pause"
"""The cause that stands while a step's run is paused."""

TIMER = "timer"
"""The cause that stands while the timer that a step waits for is held: it cannot be delivered."""

_PAUSED = "its run is paused"
_RESUMED = frozenset({PAUSE, TIMER})

_MAY_PARK = TABLE[Move.PARK].sources
_PARKED = frozenset({StepStatus.PARKED})

AWAITED = frozenset({TimerKind.RETRY, TimerKind.WAIT})
"""The timers that their steps go on by."""

_BACK = {
    StepStatus.QUEUED: Move.QUEUE_AGAIN,
    StepStatus.BACKING_OFF: Move.BACK_OFF_AGAIN,
    StepStatus.WAITING: Move.WAIT_AGAIN,
}


def pause_run(draft: Draft, event: PauseRun) -> Reply:
    """Let nothing of the run begin any more; twice is once."""
    if not draft.open:
        return Closed(draft.run.status)
    if draft.paused:
        return Done(changed=False)
    _turn(draft, TimerKind.PARK, paused=True)
    draft.record_order("run_paused", event.reason, event.actor)
    return Done(changed=True)


def resume_run(draft: Draft, event: ResumeRun) -> Reply:
    """Let a paused run go on, and steps whose timers could not be delivered try them again."""
    if not draft.open:
        return Closed(draft.run.status)
    if not draft.paused:
        return _try_again(draft, event)
    _turn(draft, TimerKind.UNPARK, paused=False)
    draft.actions.append(LetTimersGo(None))
    draft.touched[TOP] = None
    draft.record_order("run_resumed", event.reason, event.actor)
    return Done(changed=True)


def _try_again(draft: Draft, event: ResumeRun) -> Reply:
    found = steps_in(draft, _PARKED)
    if not any(_is_parked_on_timer(draft.steps[number]) for number in found):
        return Done(changed=False)
    draft.actions.append(SetTimer(TimerKind.UNPARK, None, 0.0, draft.run.pauses))
    draft.record_order("run_resumed", event.reason, event.actor)
    return Done(changed=True)


def park_steps(draft: Draft, timer: TimerState) -> None:
    """Park the next steps of a paused run, unless it was resumed since (p5)."""
    if not draft.paused or timer.generation != draft.run.pauses:
        return
    found = steps_in(draft, _MAY_PARK, after=int(timer.details or b"0"))
    for number in found[:MAX_MOVED_AT_ONCE]:
        if _may_park(draft, draft.steps[number]):
            park(draft, draft.steps[number], PAUSE, draft.run.pauses)
    _rest_later(draft, found, TimerKind.PARK)


def unpark_steps(draft: Draft, timer: TimerState) -> None:
    """Bring back the next steps that a resume is for, unless there was a pause since (p5)."""
    if not draft.open or draft.paused or timer.generation != draft.run.pauses:
        return
    found = steps_in(draft, _PARKED, after=int(timer.details or b"0"))
    for number in found[:MAX_MOVED_AT_ONCE]:
        if _is_resumed(draft.steps[number]):
            unpark(draft, draft.steps[number])
    _rest_later(draft, found, TimerKind.UNPARK)


def _is_parked_on_timer(step: StepState) -> bool:
    return step.parked is not None and step.parked.cause == TIMER


def _is_resumed(step: StepState) -> bool:
    """Tell whether a resume of the run takes away what the step is parked on."""
    return step.parked is not None and step.parked.cause in _RESUMED


def park_on_timer(draft: Draft, event: ParkOnTimer) -> Reply:
    """Park the step whose timer cannot be delivered, so that it is seen and a person goes on (p5).

    Only where the step has nothing else to wait for: else its timer is tried now and then for ever.
    """
    timer = draft.timers.get(event.timer_id)
    step = None if timer is None or timer.step is None else draft.steps.get(timer.step)
    if timer is None or step is None or draft.paused or timer.kind not in AWAITED:
        return Stale()
    if not _may_park(draft, step):
        return Stale()
    park(draft, step, TIMER, 0, why=f"its timer could not be delivered: {event.problem}")
    draft.actions.append(HoldTimer(timer.timer_id, step.step))
    return Applied()


def bring_back(draft: Draft, timer: TimerState) -> None:
    """Bring back the next steps that were parked on a cause before somebody repaired it (p8)."""
    if not draft.open:
        return
    after, _, cause = (timer.details or b"").decode().partition(" ")
    found = steps_in(draft, _PARKED, after=int(after))
    for number in found[:MAX_MOVED_AT_ONCE]:
        step = draft.steps[number]
        if _is_parked_on(step, cause, before=timer.generation):
            unpark(draft, step)
    if len(found) > MAX_MOVED_AT_ONCE:
        details = f"{found[MAX_MOVED_AT_ONCE - 1]} {cause}".encode()
        rest = SetTimer(TimerKind.CAUSE_GONE, None, 0.0, timer.generation, details=details)
        draft.actions.append(rest)


def _is_parked_on(step: StepState, cause: str, *, before: int | None = None) -> bool:
    parked = step.parked
    if parked is None or parked.cause != cause:
        return False
    return before is None or parked.generation < before


def park(draft: Draft, step: StepState, cause: str, generation: int, *, why: str = _PAUSED) -> None:
    """Stop a step that is not running; its timers stay and do nothing while it is parked."""
    if step.status is StepStatus.QUEUED:
        draft.actions.append(Dequeue(step.step))
    parked = replace(moved(step, Move.PARK), parked=Parked(cause, generation, step.status))
    draft.record("step_parked", draft.put_step(PutStep(parked)), why=why)


def unpark(draft: Draft, step: StepState) -> None:
    """Bring a parked step back as it was; timers that came due meanwhile are late."""
    assert step.parked is not None
    was = step.parked.was
    back = draft.put_step(PutStep(replace(moved(step, _BACK[was]), parked=None)))
    if was is StepStatus.QUEUED:
        draft.actions.append(Enqueue(back.step, connection_of(draft, back)))
    else:
        draft.actions.append(LetTimersGo(back.step))
    draft.record("step_unparked", back, was=was.replace("_", " "))


def park_changed(draft: Draft) -> None:
    """Park what a paused run's event left in a state that it would go on from."""
    if not draft.paused:
        return
    for number in draft.changed:
        if _may_park(draft, draft.steps[number]):
            park(draft, draft.steps[number], PAUSE, draft.run.pauses)


def hold(draft: Draft, timer: TimerState) -> None:
    """Keep a timer that came due in a pause, and park the step that it is for."""
    step = draft.steps.get(timer.step) if timer.step is not None else None
    if step is not None and _may_park(draft, step):
        park(draft, step, PAUSE, draft.run.pauses)
    parked = step is not None and draft.steps[step.step].status is StepStatus.PARKED
    draft.actions.append(HoldTimer(timer.timer_id, timer.step if parked else None))


def steps_in(draft: Draft, states: frozenset[StepStatus], *, after: int = 0) -> Sequence[int]:
    """Return the next steps in one of `states`, one more than are moved at once if there are.

    Raises `ViewTooNarrow`.
    """
    if draft.view.unfinished is None:
        raise ViewTooNarrow(Wanted(unfinished=states, unfinished_after=after))
    found = (n for n in draft.view.unfinished if n > after and draft.steps[n].status in states)
    return sorted(found)


def _may_park(draft: Draft, step: StepState) -> bool:
    """Tell whether a step stops in a pause; one that waits for others does not, as they do."""
    waits_for_others = isinstance(draft.node(step).kind, (*BLOCKS, ChildRun, Signal))
    is_waiting = step.status is StepStatus.WAITING
    return step.status in _MAY_PARK and not (is_waiting and waits_for_others)


def _turn(draft: Draft, kind: TimerKind, *, paused: bool) -> None:
    draft.run = replace(draft.run, paused=paused, pauses=draft.run.pauses + 1)
    draft.actions.append(SetTimer(kind, None, 0.0, draft.run.pauses))


def _rest_later(draft: Draft, found: Sequence[int], kind: TimerKind) -> None:
    if len(found) > MAX_MOVED_AT_ONCE:
        after = str(found[MAX_MOVED_AT_ONCE - 1]).encode()
        draft.actions.append(SetTimer(kind, None, 0.0, draft.run.pauses, details=after))
