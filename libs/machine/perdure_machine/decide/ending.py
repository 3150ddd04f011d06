"""The end of a run: completed, failed, cancelled, too old; and of the steps it leaves behind."""

from __future__ import annotations

from perdure_machine.actions import DropRunTimers, SetTimer
from perdure_machine.decide.child_messages import tell_parent
from perdure_machine.decide.dead_letters import put_dead_letter
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.parking import MAX_MOVED_AT_ONCE, steps_in
from perdure_machine.decide.scope import scope_for
from perdure_machine.decide.stopping import end_unwanted
from perdure_machine.events import CancelRun, TerminateRun
from perdure_machine.expressions import ExpressionFailed, render
from perdure_machine.node_error import DEADLINE, ErrorClass, expression_error
from perdure_machine.places import TOP
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Cancelled, Closed, Reply, Stale
from perdure_machine.states import RunLimit, RunStatus, StepStatus, TimerKind
from perdure_machine.view import NodeError, RunState, has_begun_before

MAX_RANK = 2_147_483_647
"""More than any step's rank."""

_TO_END = frozenset(
    {StepStatus.QUEUED, StepStatus.BACKING_OFF, StepStatus.WAITING, StepStatus.PARKED}
)
"""What an internal event ends in a closed run; what runs ends by its report or its lease."""

_TOO_LATE = {
    RunLimit.DEADLINE: (DEADLINE, "the run did not end within its deadline"),
    RunLimit.AGE: ("RUN_TOO_OLD", "the run passed its age limit"),
}


def complete_run(draft: Draft) -> None:
    """End a run whose nodes have all ended, with its output."""
    try:
        output = run_output(draft)
    except ExpressionFailed as failure:
        fail_run(draft, expression_error(failure, ""))
        return
    completed = replace(draft.run, status=RunStatus.COMPLETED, output=output)
    if not _has_more_to_do(draft, completed, compensate=False):
        _end_run(draft, completed)
    draft.record("run_completed")


def run_output(draft: Draft) -> bytes:
    """Return the run's output as its document has it. Raises `ExpressionFailed`."""
    template = draft.definition.top.result
    return render(template, scope_for(draft, TOP, [template]), omit_absent=True)


def finish_run(draft: Draft, node: str, output: bytes, *, compensate: bool) -> None:
    """Close a run where `node` finishes it; one that fails already still ends failed."""
    if draft.run.error is not None:
        fail_run(draft, draft.run.error)
        return
    draft.record("run_finished", node=node)
    ended = replace(draft.run, status=RunStatus.COMPLETED, output=output)
    if not _has_more_to_do(draft, ended, compensate=compensate):
        _close(draft, ended)


def fail_run(draft: Draft, error: NodeError) -> None:
    """Close a run because a node of it failed and nothing caught it."""
    if _has_more_to_do(draft, replace(draft.run, status=RunStatus.FAILED, error=error)):
        return
    put_dead_letter(draft, error)
    _close(draft, replace(draft.run, status=RunStatus.FAILED, error=error))
    draft.record("run_failed", node=error.node, code=error.code, message=error.message)


def cancel_run(draft: Draft, event: CancelRun) -> Reply:
    """Close a run because somebody wants it; twice is once (design section 12)."""
    if RunStatus.CANCELLED in (draft.run.status, draft.run.ending):
        return Cancelled(changed=False)
    if not draft.running:
        return Closed(draft.run.ending or draft.run.status)
    draft.record_order("run_cancelled", event.reason, event.actor)
    cancelled = replace(draft.run, status=RunStatus.CANCELLED, error=None)
    compensate = draft.definition.compensate_on_cancel
    if not _has_more_to_do(draft, cancelled, compensate=compensate):
        _close(draft, cancelled)
    return Cancelled(changed=True)


def terminate_run(draft: Draft, event: TerminateRun) -> Reply:
    """Close a run at once, without compensation; twice is once."""
    if draft.run.status is RunStatus.CANCELLED:
        return Cancelled(changed=False)
    if not draft.open:
        return Closed(draft.run.status)
    draft.record_order("run_terminated", event.reason, event.actor)
    if draft.run.ending is not None:
        end_compensated(draft)
    else:
        _close(draft, replace(draft.run, status=RunStatus.CANCELLED, error=None))
    return Cancelled(changed=True)


def expire_run(draft: Draft) -> Reply:
    """Close a run that passed its deadline or its age limit; a paused one when it was resumed."""
    passed = next((limit for limit in RunLimit if limit in draft.view.passed), None)
    if not draft.running or draft.paused or passed is None:
        return Stale()
    code, message = _TOO_LATE[passed]
    error = NodeError(ErrorClass.PERMANENT, code, message)
    draft.record("run_timed_out", limit=passed)
    timed_out = replace(draft.run, status=RunStatus.TIMED_OUT, error=error)
    if not _has_more_to_do(draft, timed_out):
        _close(draft, timed_out)
    return Applied()


def end_compensated(draft: Draft) -> None:
    """Close a run that was compensating, in the status that it was to end in."""
    run = draft.run
    assert run.ending is not None
    if run.ending is RunStatus.FAILED and run.error is not None:
        put_dead_letter(draft, run.error)
    draft.record("run_ended", status=run.ending, uncompensated=run.uncompensated)
    _close(draft, replace(draft.run, status=run.ending, ending=None))


def end_steps(draft: Draft) -> None:
    """End the next steps of a closed run; running ones end by their report or their lease."""
    found = [n for n in steps_in(draft, _TO_END) if not draft.works(draft.steps[n])]
    for number in found[:MAX_MOVED_AT_ONCE]:
        end_unwanted(draft, draft.steps[number])
    if len(found) > MAX_MOVED_AT_ONCE:
        _end_steps_later(draft)


def _has_more_to_do(draft: Draft, ended: RunState, *, compensate: bool = True) -> bool:
    """Have what completed compensated, and what is for the end done, before the run ends so.

    Returns whether there may be any of it. Unfinished steps end first: the run is open until all
    is done.
    """
    definition = draft.definition
    compensate = compensate and definition.compensates
    never_begun = draft.run.pending and not has_begun_before(draft.run)
    if never_begun or not (compensate or definition.nodes_at_end(ended.status)):
        return False
    below = MAX_RANK if compensate else 0
    ending = replace(ended, status=RunStatus.RUNNING, ending=ended.status, undo_below=below)
    draft.run = replace(ending, generation=draft.run.generation + 1, pending=False)
    draft.record("run_ending", status=ended.status)
    if draft.run.next_step - 1 > draft.run.ended_steps:
        _end_steps_later(draft)
    return True


def _end_run(draft: Draft, ended: RunState) -> None:
    draft.end_run(ended)
    tell_parent(draft, ended)


def _close(draft: Draft, closed: RunState) -> None:
    if draft.run.pending:
        draft.actions.append(DropRunTimers(TimerKind.BEGIN))
    _end_run(draft, closed)
    if draft.run.next_step - 1 > draft.run.ended_steps:
        _end_steps_later(draft)


def _end_steps_later(draft: Draft) -> None:
    draft.actions.append(SetTimer(TimerKind.END_STEPS, None, 0.0, draft.run.generation))
