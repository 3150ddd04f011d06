"""Timers: retries, ends of waits, and the events that a run sends to itself (protocol p5)."""

from __future__ import annotations

from types import MappingProxyType

from perdure_machine.actions import PutStep
from perdure_machine.decide.activate import expressions_of
from perdure_machine.decide.advance import go_on
from perdure_machine.decide.begin_child import CannotBegin
from perdure_machine.decide.beginning import begin_now
from perdure_machine.decide.beginning_effects import lapse
from perdure_machine.decide.blocks import is_block, retry_block, time_out_block
from perdure_machine.decide.child_messages import read_reason
from perdure_machine.decide.children import (
    child_ended,
    leave_children,
    request_start,
    restart_child,
    time_out_child,
)
from perdure_machine.decide.deadlines import pass_deadline
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.emitting import emission
from perdure_machine.decide.ending import cancel_run, end_steps
from perdure_machine.decide.erasing import erase
from perdure_machine.decide.exclusive import leave
from perdure_machine.decide.fanning import make_more
from perdure_machine.decide.joining import node_scope
from perdure_machine.decide.later import left_for_later
from perdure_machine.decide.leasing import enqueue
from perdure_machine.decide.parking import PAUSE, TIMER, bring_back, hold, park_steps, unpark_steps
from perdure_machine.decide.reopening import reopen_steps, replay
from perdure_machine.decide.repeating import begin_pass
from perdure_machine.decide.shaping import shaped
from perdure_machine.decide.stopping import end_unwanted
from perdure_machine.decide.suspending import call_again
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.decide.winding import wind_down
from perdure_machine.definition.model import BLOCKS, ChildRun
from perdure_machine.events import CancelRun, FireTimer
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import expression_error
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Early, Reply, Stale
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import StepState, TimerState

_NOTHING = b"null"
_NEVER_HELD = frozenset(
    {
        TimerKind.PARK,
        TimerKind.UNPARK,
        TimerKind.CAUSE_GONE,
        TimerKind.FAN_OUT,
        TimerKind.STOP_INSIDE,
        TimerKind.END_STEPS,
        TimerKind.CHILD_ENDED,
        TimerKind.LEAVE_CHILDREN,
        TimerKind.CANCEL_RUN,
        TimerKind.ERASE,
        TimerKind.EFFECT_LEASE,
    }
)
"""What parks, makes rows, ends or tells of an end: nothing begins by it."""


def fire(draft: Draft, event: FireTimer) -> Reply:
    """Deliver a due timer; what no longer waits for it is left alone (R5)."""
    timer = draft.timers.get(event.timer_id)
    if timer is None:
        return Stale()
    if timer.remaining > 0:
        return Early(timer.remaining)
    if timer.kind not in _NEVER_HELD and (draft.paused or _waits_for_parked(draft, timer)):
        hold(draft, timer)
        return Applied()
    if timer.kind is TimerKind.START_CHILD:
        return request_start(draft, timer)
    if timer.kind is TimerKind.EMIT:
        return emission(timer)
    draft.drop_timer(timer.timer_id)
    if timer.kind in _WHENEVER:
        _WHENEVER[timer.kind](draft, timer)
    elif timer.step is None:
        _fire_of_run(draft, timer)
    elif timer.kind is TimerKind.RETRY:
        _retry(draft, timer)
    elif timer.kind is TimerKind.DEADLINE:
        pass_deadline(draft, timer)
    elif timer.kind is TimerKind.EFFECT_WAIT:
        _end_effect_wait(draft, timer)
    else:
        _fire_of_waiting(draft, timer)
    return Applied()


def _waits_for_parked(draft: Draft, timer: TimerState) -> bool:
    """Tell whether the timer's step is still parked: a resumed run brings it back by and by."""
    step = draft.steps.get(timer.step) if timer.step is not None else None
    parked = step.parked if step is not None else None
    return parked is not None and parked.cause in (PAUSE, TIMER) and draft.running


def _fire_of_run(draft: Draft, timer: TimerState) -> None:
    """Deliver an event that the run sent to itself, unless it is of an older generation."""
    if timer.generation != draft.run.generation:
        return
    if timer.kind is TimerKind.END_STEPS and not draft.running:
        end_steps(draft)
    elif timer.kind is TimerKind.ADVANCE and draft.running:
        go_on(draft, left_for_later(timer.details))
    elif timer.kind is TimerKind.REOPEN:
        reopen_steps(draft, timer)
    elif timer.kind is TimerKind.REPLAY:
        replay(draft, timer)


def _cancel(draft: Draft, timer: TimerState) -> None:
    cancel_run(draft, CancelRun(read_reason(timer.details)))


_WHENEVER = MappingProxyType(
    {
        TimerKind.BEGIN: begin_now,
        TimerKind.HAND_OVER: leave,
        TimerKind.PARK: park_steps,
        TimerKind.UNPARK: unpark_steps,
        TimerKind.CAUSE_GONE: bring_back,
        TimerKind.CHILD_ENDED: child_ended,
        TimerKind.LEAVE_CHILDREN: leave_children,
        TimerKind.CANCEL_RUN: _cancel,
        TimerKind.ERASE: erase,
        TimerKind.EFFECT_LEASE: lapse,
    }
)
"""Events from elsewhere, where what is true when they come counts, not the run's generation; and
pauses, which have one of their own."""


def _fire_of_waiting(draft: Draft, timer: TimerState) -> None:
    """Deliver what a waiting step set; a whole that stops begins nothing any more."""
    step = _waiter(draft, timer, StepStatus.WAITING)
    if step is None:
        return
    if timer.kind is TimerKind.STOP_INSIDE:
        wind_down(draft, step)
    elif isinstance(draft.node(step).kind, ChildRun):
        time_out_child(draft, step)
    elif not is_block(draft, step):
        _end_wait(draft, step)
    elif draft.block(step).ending is None:
        match timer.kind:
            case TimerKind.FAN_OUT:
                make_more(draft, step)
            case TimerKind.TIMEOUT:
                time_out_block(draft, step)
            case _:
                begin_pass(draft, step)


def _retry(draft: Draft, timer: TimerState) -> None:
    step = _waiter(draft, timer, StepStatus.BACKING_OFF)
    if step is None:
        return
    kind = draft.node(step).kind
    if not isinstance(kind, (*BLOCKS, ChildRun)):
        enqueue(draft, draft.put_step(PutStep(moved(step, Move.RETRY))))
        return
    node = draft.node(step)
    try:
        values = node_scope(draft, node, step.place, expressions_of(node))
        if isinstance(kind, ChildRun):
            restart_child(draft, step, kind, values)
        else:
            retry_block(draft, step, kind, values)
    except ExpressionFailed as failure:
        end_failed(draft, step, expression_error(failure, step.node))
    except CannotBegin as refusal:
        end_failed(draft, step, refusal.error)


def _end_effect_wait(draft: Draft, timer: TimerState) -> None:
    step = _waiter(draft, timer, StepStatus.WAITING)
    if step is not None:
        call_again(draft, step)


def _end_wait(draft: Draft, step: StepState) -> None:
    try:
        output = shaped(draft, draft.node(step), step.place, _NOTHING)
    except ExpressionFailed as failure:
        end_failed(draft, step, expression_error(failure, step.node))
        return
    done = replace(moved(step, Move.END_WAIT), output=output)
    draft.record("wait_ended", draft.end_node(PutStep(done, ended=True)))


def _waiter(draft: Draft, timer: TimerState, status: StepStatus) -> StepState | None:
    step = draft.steps.get(timer.step) if timer.step is not None else None
    if step is None or step.status is not status:
        return None
    if draft.works(step):
        return step
    if draft.open:
        # The run ends after its compensations; without its timer the step had no way forward (R10).
        end_unwanted(draft, step)
    return None
