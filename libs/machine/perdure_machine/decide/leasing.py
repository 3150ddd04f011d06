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
    REQUEST,
    begin_with_lease,
    call_of,
    effect_of,
    is_for_a_person,
    is_forgotten,
    key_of,
    lose_with_lease,
    rides,
    settle_with_report,
)
from perdure_machine.decide.failing import fail_try, fail_unrepeatable
from perdure_machine.decide.parking import PAUSE, park
from perdure_machine.decide.resolving import let_wait
from perdure_machine.decide.spending import reserve
from perdure_machine.decide.standing import stand
from perdure_machine.decide.stopping import end_cancelled
from perdure_machine.decide.suspending import give_to_review
from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import Acquire, ExpireLease, Release
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.replies import (
    Applied,
    Blocked,
    EffectPlan,
    Gone,
    Granted,
    Reply,
    Stale,
)
from perdure_machine.states import AttemptOutcome, EffectOutcome, EffectStatus, StepStatus
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
    if stand(draft, step) or let_wait(draft, step) or _cannot_be_called(draft, step):
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


def _cannot_be_called(draft: Draft, step: StepState) -> bool:
    """Part with a step whose provider may not recognise a repeat of its call; return whether so.

    One whose call can be looked up is handed out all the same: its holder is told to.
    """
    known, kind = effect_of(draft, step), call_of(draft, step)
    if known is None or kind is None or not rides(draft, step):
        return False
    if is_for_a_person(known):
        give_to_review(draft, step, known)
        return True
    if known.status is EffectStatus.REFUSED or not is_forgotten(known, kind.effect_keep):
        return False
    if known.status is EffectStatus.SETTLED:
        fail_unrepeatable(draft, step)
    elif kind.lookup is None:
        give_to_review(draft, step, known)
    else:
        unknown = EffectStatus.OUTCOME_UNKNOWN
        draft.put_effect(replace(known, kind=EffectKind.RECONCILE, status=unknown))
        return False
    return True


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
    effect = begin_with_lease(draft, taken) if rides(draft, taken) else None
    return _grant(draft, taken, lease_for, effect)


def take_back(draft: Draft, step: StepState) -> None:
    """End a step that was leased by this very decision, which closed its run: nobody has it yet."""
    settle_with_report(draft, step, step.fence, EffectOutcome.NOT_PERFORMED)
    draft.end_attempt(step, AttemptOutcome.CANCELLED)
    end_cancelled(draft, step)


def repeated_grant(draft: Draft, step: StepState) -> Granted | None:
    """Return the grant of a lease again, with what is left of it; None if nothing is."""
    if step.lease_left is None or step.lease_left <= 0:
        return None
    effect = effect_of(draft, step) if rides(draft, step) else None
    return _grant(draft, step, step.lease_left, effect)


def release(draft: Draft, event: Release) -> Reply:
    """Take a step back at once; this counts neither as a failure nor as a loss."""
    step = _held(draft, event)
    if step is None:
        return Stale()
    lose_with_lease(draft, step)
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
    lose_with_lease(draft, step)
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
    else:
        enqueue(draft, draft.put_step(PutStep(moved(lost, Move.LOSE), expired=expired)))


def _poison(step: StepState) -> NodeError:
    return NodeError(
        ErrorClass.POISON,
        "POISON",
        f"{step.losses} workers were lost while they ran this step",
        node=step.node,
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
    return Granted(
        draft.run,
        step,
        lease_for,
        node.timeout,
        handler,
        effect,
        connection,
        _plan(draft, step),
    )


def _plan(draft: Draft, step: StepState) -> EffectPlan | None:
    """Return what the step's holder is to begin before its call, None where that rides."""
    kind = call_of(draft, step)
    if kind is None or rides(draft, step):
        return None
    known = effect_of(draft, step)
    declared = kind.effect if known is None else EffectKind(known.kind)
    can_look_up = kind.lookup is not None
    return EffectPlan(key_of(step), REQUEST, declared, kind.effect_keep, can_look_up)
