"""Nodes that end without having run to their end: skipped, cancelled, stopped with their run."""

from __future__ import annotations

from perdure_machine.actions import Dequeue, DropStepTimers, ExpectedExpiry, PutStep
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.liveness import is_live
from perdure_machine.decide.mail import close_wait
from perdure_machine.definition.model import Node, Signal
from perdure_machine.places import At, Place
from perdure_machine.replacing import replace
from perdure_machine.states import ENDED, StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import StepState

RUN_STOPS = "its run fails"
TOLD_TO_STOP = "it was told to stop"
STOPPED = "what it stands in stops"
RUN_ENDS = "its run ends"
RUN_CLOSED = "its run is closed"
NEED_FAILED = "something it needs failed or was cancelled"


def new_step(draft: Draft, node: Node, place: Place, status: StepStatus) -> StepState:
    """Return the first state of a node's step, not yet written.

    One that a retry has decided again has its number, the fences that it used up, and the keys of
    its effects, whatever its node was called then.
    """
    earlier = draft.earlier(At(*place, node.id))
    if earlier is None:
        return StepState(draft.new_step_number(), node.id, node.kind.name, status, *place)
    used = StepState(earlier.step, node.id, node.kind.name, status, *place)
    return replace(
        used,
        fence=earlier.fence,
        lease_id=earlier.lease_id,
        worker=earlier.worker,
        failures=earlier.failures,
        effect_prefix=earlier.effect_prefix,
    )


def skip(draft: Draft, node: Node, place: Place, why: str) -> StepState:
    """End a node without having run it."""
    step = draft.end_node(PutStep(new_step(draft, node, place, StepStatus.SKIPPED), ended=True))
    draft.record("step_skipped", step, why=why)
    return step


def cancel(draft: Draft, node: Node, place: Place, why: str) -> StepState:
    """End a node that will never run because something failed."""
    step = draft.end_node(PutStep(new_step(draft, node, place, StepStatus.CANCELLED), ended=True))
    draft.record("step_cancelled", step, why=why)
    return step


def stop(draft: Draft, step: StepState, why: str) -> bool:
    """End a begun step before its time, or have its worker told to; return whether it ended."""
    if step.status in ENDED or step.stopping:
        return False
    if step.status is StepStatus.RUNNING:
        draft.put_step(PutStep(replace(step, stopping=True)))
        return False
    drop_ways_forward(draft, step)
    end_cancelled(draft, step, why=why)
    return True


def drop_ways_forward(draft: Draft, step: StepState) -> None:
    """Drop what would have moved a step on that is not running."""
    if step.status is StepStatus.QUEUED:
        draft.actions.append(Dequeue(step.step))
        return
    draft.actions.append(DropStepTimers(step.step))
    if step.kind == Signal.name:
        close_wait(draft, step.step)


def end_unwanted(draft: Draft, step: StepState) -> None:
    """End a step that its run does not want any more and that is not running."""
    drop_ways_forward(draft, step)
    end_cancelled(draft, step)


def _cancelled(step: StepState) -> StepState:
    return replace(moved(step, Move.CANCEL), parked=None)


def end_stopped(draft: Draft, step: StepState, *, expired: ExpectedExpiry | None = None) -> None:
    """End a step as cancelled, because the whole that it stands in stops."""
    action = PutStep(_cancelled(step), ended=True, expired=expired)
    draft.record("step_cancelled", draft.end_stopped(action), why=STOPPED)


def end_cancelled(
    draft: Draft,
    step: StepState,
    *,
    expired: ExpectedExpiry | None = None,
    why: str = TOLD_TO_STOP,
) -> None:
    """End a step as cancelled, because its run is closed or it or something around it stops."""
    action = PutStep(_cancelled(step), ended=True, expired=expired)
    if not draft.open:
        draft.record("step_cancelled", draft.put_step(action), why=RUN_CLOSED)
    elif not draft.running:
        draft.record("step_cancelled", draft.end_node(action), why=RUN_ENDS)
    elif not is_live(draft, step.place):
        end_stopped(draft, step, expired=expired)
    else:
        draft.record("step_cancelled", draft.end_node(action), why=why)
