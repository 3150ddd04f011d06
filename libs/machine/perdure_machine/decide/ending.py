"""The end of a run: completed, failed, cancelled, too old; and of the steps it leaves behind."""

from __future__ import annotations

from dataclasses import replace

from perdure_machine.actions import Dequeue, DropStepTimers, PutStep, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.scope import scope_for
from perdure_machine.events import CancelRun
from perdure_machine.expressions import ExpressionFailed, render
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.replies import Applied, Cancelled, Closed, Reply, Stale
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import NodeError, ViewTooNarrow, Wanted

MAX_ENDED_AT_ONCE = 500
"""Steps of a closed run that one internal event ends (design section 12)."""


def complete_run(draft: Draft) -> None:
    """End a run whose nodes have all ended, with its output."""
    definition = draft.definition
    template = definition.output or definition.leaf_output
    try:
        output = render(template, scope_for(draft, [template]), omit_absent=True)
    except ExpressionFailed as failure:
        fail_run(draft, expression_error(failure, ""))
        return
    draft.end_run(replace(draft.run, status=RunStatus.COMPLETED, output=output))
    draft.record("run_completed")


def fail_run(draft: Draft, error: NodeError) -> None:
    """Close a run because a node of it failed and nothing caught it."""
    _close(draft, RunStatus.FAILED, error)
    draft.record("run_failed", node=error.node, code=error.code, message=error.message)


def cancel_run(draft: Draft, event: CancelRun) -> Reply:
    """Close a run because somebody wants it; twice is once (design section 12)."""
    if draft.run.status is RunStatus.CANCELLED:
        return Cancelled(changed=False)
    if not draft.running:
        return Closed(draft.run.status)
    _close(draft, RunStatus.CANCELLED, None)
    draft.record("run_cancelled", reason=event.reason)
    return Cancelled(changed=True)


def expire_run(draft: Draft) -> Reply:
    """Close a run that passed its age limit."""
    if not draft.running:
        return Stale()
    error = NodeError(ErrorClass.PERMANENT, "RUN_TOO_OLD", "the run passed its age limit")
    _close(draft, RunStatus.TIMED_OUT, error)
    draft.record("run_timed_out")
    return Applied()


def end_steps(draft: Draft) -> None:
    """End the next steps of a closed run; running ones end by their report or their lease."""
    unfinished = draft.view.unfinished
    if unfinished is None:
        raise ViewTooNarrow(Wanted(unfinished=True))
    for number in unfinished[:MAX_ENDED_AT_ONCE]:
        _cancel_step(draft, number)
    if len(unfinished) > MAX_ENDED_AT_ONCE:
        _end_steps_later(draft)


def _close(draft: Draft, status: RunStatus, error: NodeError | None) -> None:
    draft.end_run(replace(draft.run, status=status, error=error))
    if draft.run.next_step - 1 > draft.run.ended_nodes:
        _end_steps_later(draft)


def _end_steps_later(draft: Draft) -> None:
    draft.actions.append(SetTimer(TimerKind.END_STEPS, None, 0.0, draft.run.generation))


def _cancel_step(draft: Draft, number: int) -> None:
    step = draft.steps[number]
    if step.status is StepStatus.QUEUED:
        draft.actions.append(Dequeue(number))
    else:
        draft.actions.append(DropStepTimers(number))
    draft.record("step_cancelled", draft.put_step(PutStep(moved(step, Move.CANCEL), ended=True)))
