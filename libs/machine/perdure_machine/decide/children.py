"""Child runs as their parent sees them: asked for, started, ended, left behind (protocol p5).

The start is an internal event of the parent. Its delivery changes nothing: it is answered with what
is to be started, under a key that belongs to this activation alone, and what came of that arrives
as an event of its own, which drops the timer. So however often it is delivered, and wherever a
process dies, one run is started or none.
"""

from __future__ import annotations

import json
from uuid import UUID

from perdure_machine.actions import PutStep, SetTimer
from perdure_machine.decide.begin_child import ask_for_child, called_workflow
from perdure_machine.decide.child_messages import ChildEnd, ask_to_end, read_child_end
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.liveness import is_live
from perdure_machine.decide.stopping import drop_ways_forward, end_cancelled, end_unwanted
from perdure_machine.decide.wholes import complete_whole, fail_whole
from perdure_machine.definition.model import ChildRun
from perdure_machine.events import ChildForgone, ChildRefused, ChildStarted, TellOfChild
from perdure_machine.expressions import Scope
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, ChildUnwanted, ChildWanted, Reply, Stale
from perdure_machine.start_keys import child_key
from perdure_machine.states import ENDED, ChildStatus, ParentEnd, RunStatus, StepStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import (
    ChildState,
    NodeError,
    Parent,
    RunState,
    StepState,
    TimerState,
    ViewTooNarrow,
    Wanted,
)

MAX_LEFT_AT_ONCE = 500
"""Children that one internal event cancels (design section 12)."""

_ENDED_WITHOUT_IT = ENDED - {StepStatus.COMPLETED}


def request_start(draft: Draft, timer: TimerState) -> Reply:
    """Answer the delivery of a START_CHILD timer with what is to be done about the child."""
    step, child = _about(draft, timer)
    key = child_key(draft.run.run_id, step.step, timer.generation)
    if not draft.running or step.status in ENDED or not _is_starting(step, child, timer):
        return ChildUnwanted(key)
    if step.input is None:
        raise ViewTooNarrow(Wanted(steps=frozenset({step.step})))
    run, kind = draft.run, _kind(draft, step)
    told = kind.wait or child.on_parent_end is not ParentEnd.ABANDON
    return ChildWanted(
        org=run.org,
        workflow=child.workflow,
        version=child.version,
        input=step.input,
        start_key=key,
        priority=run.priority,
        traceparent=run.traceparent,
        parent=Parent(run.run_id, step.step, told),
        depth=run.depth + 1,
    )


def tell_of_child(draft: Draft, event: TellOfChild) -> Reply:
    """Take note of what came of the child's start."""
    timer = draft.timers.get(event.timer_id)
    if timer is None:
        return Stale()
    draft.drop_timer(timer.timer_id)
    step, child = _about(draft, timer)
    if not _is_starting(step, child, timer):
        _started_late(draft, child, event.outcome)
        return Applied()
    match event.outcome:
        case ChildStarted() as started:
            _started(draft, step, child, started)
        case ChildRefused(error):
            draft.put_child(replace(child, status=ChildStatus.ENDED))
            if _waits(draft, step):
                _fail(draft, step, replace(error, node=step.node))
        case _:
            draft.put_child(replace(child, status=ChildStatus.LEFT))
    _end_if_unwanted(draft, step)
    return Applied()


def child_ended(draft: Draft, timer: TimerState) -> None:
    """End the step that waits for the child, however the child ended."""
    step, child = _about(draft, timer)
    end = read_child_end(timer.details or b"")
    if child.status is ChildStatus.ENDED or not _is_of(draft, step, child, end):
        return
    draft.put_child(
        replace(child, run_id=end.run_id, version=end.version, status=ChildStatus.ENDED)
    )
    draft.record("child_ended", step, run_id=str(end.run_id), status=str(end.status))
    if not _waits(draft, step):
        _end_if_unwanted(draft, step)
        return
    if not _kind(draft, step).wait:
        complete_whole(draft, step, _started_output(child.workflow, end.run_id, end.version))
    elif end.status is RunStatus.COMPLETED:
        complete_whole(draft, step, end.output or b"null")
    else:
        _fail(draft, step, end.as_error(step.node))


def time_out_child(draft: Draft, step: StepState) -> None:
    """Fail a try that took longer than its `timeout`; its child has no more to do."""
    child = draft.children[step.step]
    if child.on_parent_end is ParentEnd.ABANDON:
        draft.put_child(replace(child, status=ChildStatus.LEFT))
    else:
        _leave(draft, child)
    message = f"the child took longer than {draft.node(step).timeout} s"
    _fail(draft, step, NodeError(ErrorClass.RETRYABLE, "TIMEOUT", message, node=step.node))


def restart_child(draft: Draft, step: StepState, kind: ChildRun, scope: Scope) -> None:
    """Have another child started, with the input of the first.

    Raises `CannotBegin` and `ExpressionFailed`.
    """
    workflow, version = called_workflow(draft.node(step), kind, scope)
    ask_for_child(draft, draft.put_step(PutStep(moved(step, Move.RESTART))), workflow, version)


def leave_children(draft: Draft, _timer: TimerState) -> None:
    """Cancel the next of the running children that end with what has ended."""
    leaving = draft.view.leaving
    if leaving is None:
        raise ViewTooNarrow(Wanted(leaving=True))
    for number in leaving[:MAX_LEFT_AT_ONCE]:
        _leave(draft, draft.children[number])
    if leaving:
        draft.record("children_cancelled", count=len(leaving[:MAX_LEFT_AT_ONCE]))
    if len(leaving) > MAX_LEFT_AT_ONCE:
        draft.actions.append(SetTimer(TimerKind.LEAVE_CHILDREN, None, 0.0))


def is_leaving(run: RunState, step: StepState, child: ChildState) -> bool:
    """Tell whether a child ends because its run has ended, or its step otherwise than it did."""
    ends_with_it = child.on_parent_end is ParentEnd.CANCEL
    has_ended = run.status is not RunStatus.RUNNING or step.status in _ENDED_WITHOUT_IT
    return child.status is ChildStatus.RUNNING and ends_with_it and has_ended


def _started(draft: Draft, step: StepState, child: ChildState, started: ChildStarted) -> None:
    child = replace(
        child, run_id=started.run_id, version=started.version, status=ChildStatus.RUNNING
    )
    draft.record(
        "child_started",
        step,
        run_id=str(started.run_id),
        workflow=child.workflow,
        version=started.version,
    )
    if _waits(draft, step):
        draft.put_child(child)
        if not _kind(draft, step).wait:
            output = _started_output(child.workflow, started.run_id, started.version)
            complete_whole(draft, step, output)
    elif child.on_parent_end is ParentEnd.CANCEL:
        _leave(draft, child)
    else:
        draft.put_child(child)


def _started_late(
    draft: Draft, child: ChildState, outcome: ChildStarted | ChildRefused | ChildForgone
) -> None:
    """Have a child cancelled that was started while nobody wanted it any more."""
    if child.on_parent_end is ParentEnd.ABANDON or not isinstance(outcome, ChildStarted):
        return
    if outcome.run_id != child.run_id:
        _ask_to_end(draft, outcome.run_id)


def _leave(draft: Draft, child: ChildState) -> None:
    """Have done with a child: it is cancelled, as soon as it is known which run it is."""
    draft.put_child(replace(child, status=ChildStatus.LEFT))
    if child.run_id is not None:
        _ask_to_end(draft, child.run_id)


def _ask_to_end(draft: Draft, run_id: UUID) -> None:
    ask_to_end(draft, run_id, f"its parent run {draft.run.run_id} has done with it")


def _fail(draft: Draft, step: StepState, error: NodeError) -> None:
    """Fail the try, unless what its node stands in stops and nobody would handle that."""
    if is_live(draft, step.place):
        fail_whole(draft, step, error)
    else:
        drop_ways_forward(draft, step)
        end_cancelled(draft, replace(step, error=error))


def _is_starting(step: StepState, child: ChildState, timer: TimerState) -> bool:
    """Tell whether the step waits for the start that the timer is about, not for a later try's."""
    return child.status is ChildStatus.STARTING and timer.generation == step.failures


def _about(draft: Draft, timer: TimerState) -> tuple[StepState, ChildState]:
    assert timer.step is not None
    return draft.steps[timer.step], draft.children[timer.step]


def _kind(draft: Draft, step: StepState) -> ChildRun:
    kind = draft.node(step).kind
    assert isinstance(kind, ChildRun)
    return kind


def _waits(draft: Draft, step: StepState) -> bool:
    return draft.running and step.status is StepStatus.WAITING


def _end_if_unwanted(draft: Draft, step: StepState) -> None:
    """End a step of a run that ends after its compensations: no child moves it on (R10)."""
    still = draft.steps[step.step]
    if draft.open and not draft.running and still.status is StepStatus.WAITING:
        end_unwanted(draft, still)


def _is_of(draft: Draft, step: StepState, child: ChildState, end: ChildEnd) -> bool:
    """Tell whether the end is of this child, and not of one of an earlier try of the step."""
    if child.run_id is not None:
        return child.run_id == end.run_id
    return end.start_key == child_key(draft.run.run_id, step.step, step.failures)


def _started_output(workflow: str, run_id: object, version: int) -> bytes:
    return json.dumps({"run_id": str(run_id), "workflow": workflow, "version": version}).encode()
