"""Timers: retries, ends of waits, and the events that a run sends to itself (protocol p5)."""

from __future__ import annotations

import json
from dataclasses import replace

from perdure_machine.actions import PutStep
from perdure_machine.decide.activate import shaped
from perdure_machine.decide.advance import go_on
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import end_steps
from perdure_machine.decide.leasing import enqueue
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.events import FireTimer
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import expression_error
from perdure_machine.replies import Applied, Early, Reply, Stale
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import StepState, TimerState

_NOTHING = b"null"


def fire(draft: Draft, event: FireTimer) -> Reply:
    """Deliver a due timer; what no longer waits for it is left alone (R5)."""
    timer = draft.timers.get(event.timer_id)
    if timer is None:
        return Stale()
    if timer.remaining > 0:
        return Early(timer.remaining)
    draft.drop_timer(timer.timer_id)
    match timer.kind:
        case TimerKind.RETRY:
            _retry(draft, timer)
        case TimerKind.WAIT:
            _end_wait(draft, timer)
        case TimerKind.END_STEPS:
            if not draft.running and timer.generation == draft.run.generation:
                end_steps(draft)
        case TimerKind.ADVANCE:
            if draft.running and timer.generation == draft.run.generation:
                go_on(draft, json.loads(timer.details or b"[]"))
    return Applied()


def _retry(draft: Draft, timer: TimerState) -> None:
    step = _waiter(draft, timer, StepStatus.BACKING_OFF)
    if step is not None:
        enqueue(draft, draft.put_step(PutStep(moved(step, Move.RETRY))))


def _end_wait(draft: Draft, timer: TimerState) -> None:
    step = _waiter(draft, timer, StepStatus.WAITING)
    if step is None:
        return
    try:
        output = shaped(draft, draft.node(step), _NOTHING)
    except ExpressionFailed as failure:
        end_failed(draft, step, expression_error(failure, step.node))
        return
    done = replace(moved(step, Move.END_WAIT), output=output)
    draft.record("wait_ended", draft.end_node(PutStep(done, ended=True)))


def _waiter(draft: Draft, timer: TimerState, status: StepStatus) -> StepState | None:
    step = draft.steps.get(timer.step) if timer.step is not None else None
    return step if step is not None and step.status is status and draft.running else None
