"""Leases: taken, handed back, run out; every acquisition has a fence of its own (R6, p3)."""

from __future__ import annotations

from uuid import UUID

from perdure_machine.actions import Dequeue, Enqueue, ExpectedExpiry, PutStep
from perdure_machine.capacity import Verdict
from perdure_machine.decide.choosing import handler_of
from perdure_machine.decide.connecting import connection_of, park_unusable, reserved, tried
from perdure_machine.decide.consent import refuse_suppressed
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import (
    begin_effect,
    effect_of,
    give_back_effect,
    give_to_review,
    is_forgotten,
    lose_effect,
    may_repeat,
    settle_effect,
)
from perdure_machine.decide.failing import fail_forgotten, fail_try, fail_unrepeatable
from perdure_machine.decide.parking import PAUSE, park
from perdure_machine.decide.spending import reserve
from perdure_machine.decide.standing import stand
from perdure_machine.decide.stopping import end_cancelled
from perdure_machine.events import Acquire, ExpireLease, Release
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Blocked, Gone, Granted, Reply, Stale
from perdure_machine.states import AttemptOutcome, EffectOutcome, StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import EffectState, NodeError, StepState


def enqueue(draft: Draft, step: StepState) -> None:
    """Have a message about a queued step sent (R3). Raises `ViewTooNarrow`."""
    draft.actions.append(Enqueue(step.step, connection_of(draft, step)))
    draft.record("step_queued", step)


def acquire(draft: Draft, event: Acquire) -> Reply:
    """Give the step to the asker; a repeat under the same lease id gets the same grant (p3)."""
    step = draft.steps.get(event.step)
    if step is None:
        return Gone()
    if step.status is StepStatus.RUNNING and step.lease_id == event.lease_id:
        return repeated_grant(draft, step) or Gone()
    if step.status is not StepStatus.QUEUED or not draft.works(step):
        return Gone()
    if draft.paused:
        park(draft, step, PAUSE, draft.run.pauses)
        return Gone()
    if event.lease_id in _lost_leases(draft, step):
        return Gone()
    connection = connection_of(draft, step)
    if connection is not None and not _has_room(draft, step, event.lease_id, connection):
        return Blocked() if draft.steps[step.step] is step else Gone()
    draft.actions.append(Dequeue(step.step))
    if stand(draft, step):
        return Gone()
    if not may_repeat(draft, step):
        fail_unrepeatable(draft, step)
        return Gone()
    if is_forgotten(draft, step):
        give_to_review(draft, step)
        fail_forgotten(draft, step)
        return Gone()
    if refuse_suppressed(draft, step) or not reserve(draft, step):
        return Gone()
    return hand_out(draft, step, event.lease_id, event.worker)


def _has_room(draft: Draft, step: StepState, lease_id: UUID, connection: str) -> bool:
    """Tell whether the step's connection has a place for it; park it where a person must act."""
    found = reserved(draft, step, lease_id, connection)
    if found.connection != connection:  # a migration changed it since it was queued
        enqueue(draft, draft.put_step(PutStep(step)))
        return False
    if found.verdict is Verdict.UNUSABLE:
        park_unusable(draft, step, found)
        return False
    return found.verdict is Verdict.HELD


def hand_out(draft: Draft, step: StepState, lease_id: UUID, worker: str) -> Granted:
    """Lease a queued step; its one effect is recorded in flight with it (protocol p4)."""
    node = draft.node(step)
    lease_for = draft.lane(step).hand_out
    if node.timeout is not None:
        lease_for = min(lease_for, node.timeout)
    taken = replace(
        moved(step, Move.ACQUIRE),
        fence=step.fence + 1,
        lease_id=lease_id,
        worker=worker,
        lease_left=lease_for,
    )
    draft.put_step(PutStep(taken, lease_for=lease_for, try_for=node.timeout))
    draft.record("step_leased", taken, worker=worker)
    return _grant(draft, taken, lease_for, begin_effect(draft, taken))


def take_back(draft: Draft, step: StepState) -> None:
    """End a step that was leased by this very decision, which closed its run: nobody has it yet."""
    settle_effect(draft, step, step.fence, EffectOutcome.NOT_PERFORMED)
    draft.end_attempt(step, AttemptOutcome.CANCELLED)
    end_cancelled(draft, step)


def repeated_grant(draft: Draft, step: StepState) -> Granted | None:
    """Return the grant of a lease again, with what is left of it; None if nothing is."""
    if step.lease_left is None or step.lease_left <= 0:
        return None
    return _grant(draft, step, step.lease_left, effect_of(draft, step))


def release(draft: Draft, event: Release) -> Reply:
    """Take a step back at once; this counts neither as a failure nor as a loss."""
    step = _held(draft, event)
    if step is None:
        return Stale()
    give_back_effect(draft, step)
    draft.end_attempt(step, AttemptOutcome.RELEASED)
    if not draft.works(step) or step.stopping:
        end_cancelled(draft, step)
        return Applied()
    back = draft.put_step(PutStep(moved(step, Move.RELEASE)))
    draft.record("step_released", back)
    enqueue(draft, back)
    return Applied()


def expire(draft: Draft, event: ExpireLease) -> Reply:
    """Take away a lease that ran out; the write checks again that it did (R6)."""
    step = _held(draft, event)
    if step is None:
        return Stale()
    lose_effect(draft, step)
    expired = ExpectedExpiry(event.timed_out)
    if event.timed_out:
        _time_out(draft, step, event.jitter, expired)
        return Applied(tried=tried(draft, step, ErrorClass.RETRYABLE))
    _lose(draft, step, event.jitter, expired)
    return Applied(tried=tried(draft, step, ErrorClass.POISON))


def _time_out(draft: Draft, step: StepState, jitter: float, expired: ExpectedExpiry) -> None:
    seconds = draft.node(step).timeout
    error = NodeError(
        ErrorClass.RETRYABLE, "TIMEOUT", f"the try took longer than {seconds} s", node=step.node
    )
    draft.end_attempt(step, AttemptOutcome.TIMED_OUT, error=error)
    fail_try(draft, step, error, jitter, expired=expired)


def _lose(draft: Draft, step: StepState, jitter: float, expired: ExpectedExpiry) -> None:
    draft.end_attempt(step, AttemptOutcome.LOST)
    losses = step.losses + 1
    lost = replace(step, losses=losses)
    draft.record("step_lost", lost, losses=losses, worker=step.worker or "")
    if not draft.works(step) or step.stopping:
        end_cancelled(draft, lost, expired=expired)
    elif losses >= draft.lane(step).poison_limit:
        fail_try(draft, lost, _poison(lost), jitter, expired=expired)
    elif not may_repeat(draft, lost):
        fail_try(draft, lost, _worker_lost(lost), jitter, expired=expired)
    else:
        enqueue(draft, draft.put_step(PutStep(moved(lost, Move.LOSE), expired=expired)))


def _poison(step: StepState) -> NodeError:
    return NodeError(
        ErrorClass.POISON,
        "POISON",
        f"{step.losses} workers were lost while they ran this step",
        node=step.node,
    )


def _worker_lost(step: StepState) -> NodeError:
    return NodeError(
        ErrorClass.RETRYABLE, "WORKER_LOST", f"{step.worker} was lost in the call", node=step.node
    )


def _held(draft: Draft, event: Release | ExpireLease) -> StepState | None:
    step = draft.steps.get(event.step)
    if step is None or step.status is not StepStatus.RUNNING:
        return None
    held = (step.fence, step.lease_id) == (event.fence, event.lease_id)
    return step if held else None


def _lost_leases(draft: Draft, step: StepState) -> set[UUID]:
    return {attempt.lease_id for attempt in draft.attempts if attempt.step == step.step}


def _grant(draft: Draft, step: StepState, lease_for: float, effect: EffectState | None) -> Granted:
    node = draft.node(step)
    handler, connection = handler_of(draft, step), connection_of(draft, step)
    return Granted(draft.run, step, lease_for, node.timeout, handler, effect, connection)
