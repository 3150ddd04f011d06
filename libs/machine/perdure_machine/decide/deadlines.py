"""Deadlines of nodes: an end that comes whatever the node is doing, its tries and waits included.

A deadline is no way forward (R10): it ends what does not end by itself.
"""

from __future__ import annotations

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import lose_with_lease
from perdure_machine.decide.liveness import is_live
from perdure_machine.decide.stopping import drop_ways_forward, end_cancelled
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.decide.winding import stop_inside
from perdure_machine.definition.model import BLOCKS
from perdure_machine.node_error import DEADLINE, ErrorClass
from perdure_machine.states import ENDED, AttemptOutcome, BlockEnd, StepStatus, TimerKind
from perdure_machine.view import NodeError, StepState, TimerState


def set_deadline(draft: Draft, step: StepState, seconds: float | None) -> None:
    """Let a step that began just now, unless it has ended, end after `seconds` at the latest."""
    if seconds is not None and draft.steps[step.step].status not in ENDED:
        details = f"{seconds:g}".encode()
        draft.actions.append(SetTimer(TimerKind.DEADLINE, step.step, seconds, details=details))


def pass_deadline(draft: Draft, timer: TimerState) -> None:
    """End a node whose time is over.

    A running step loses its lease: its holder's report is stale, but settles its effect all the
    same, of which nobody knows until then how it ended. A whole ends when all inside has stopped.
    """
    step = draft.steps.get(timer.step) if timer.step is not None else None
    if step is None or step.status in ENDED or not draft.running:
        return
    error = _too_late(step, timer)
    if isinstance(draft.node(step).kind, BLOCKS) and step.status is StepStatus.WAITING:
        stop_inside(draft, step, BlockEnd.FAIL, error)
        return
    if step.status is StepStatus.RUNNING:
        lose_with_lease(draft, step)
        draft.end_attempt(step, AttemptOutcome.TIMED_OUT, error=error)
    else:
        drop_ways_forward(draft, step)
    if step.stopping or not is_live(draft, step.place):
        end_cancelled(draft, step)
    else:
        end_failed(draft, step, error)


def _too_late(step: StepState, timer: TimerState) -> NodeError:
    seconds = (timer.details or b"0").decode()
    message = f"the node did not end within its deadline of {seconds} s"
    return NodeError(ErrorClass.PERMANENT, DEADLINE, message, node=step.node)
