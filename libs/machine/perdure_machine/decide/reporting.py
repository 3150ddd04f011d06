"""Results: applied once, with the newest lease only (R6); repeats get the same answer (R5)."""

from __future__ import annotations

from perdure_runtime.errors import InvalidArgument

from perdure_machine.actions import PutStep
from perdure_machine.decide.advance import advance
from perdure_machine.decide.connecting import refused_by, tried
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.failing import fail_try
from perdure_machine.decide.leasing import repeated_grant, take_back
from perdure_machine.decide.settling import settle_by_report
from perdure_machine.decide.shaping import shaped, told_cost
from perdure_machine.events import Failed, Report, Succeeded
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.payload import check_payload
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Granted, Reply, Stale
from perdure_machine.states import AttemptOutcome, EffectOutcome, StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import AttemptState, NodeError, StepState, ViewTooNarrow, Wanted

MAX_OUTPUT_DEPTH = 100
"""Deepest output, as deep as an input may be; its size is limited where it comes in."""

_ANSWERED = frozenset({AttemptOutcome.COMPLETED, AttemptOutcome.FAILED})


def report(draft: Draft, event: Report) -> Reply:
    """Apply how a try ended."""
    step = draft.steps.get(event.step)
    if step is None:
        return Stale()
    if step.status is StepStatus.RUNNING and _holder(step) == (event.fence, event.lease_id):
        return _apply(draft, step, event)
    _settle(draft, step, event)
    earlier = _earlier(draft, event)
    if earlier is None or earlier.outcome not in _ANSWERED:
        return Stale()
    return Applied(_chained_before(draft, earlier, event))


def _apply(draft: Draft, step: StepState, event: Report) -> Reply:
    draft.paid, draft.did_nothing = event.cost, event.effect is EffectOutcome.NOT_PERFORMED
    _settle(draft, step, event)
    match event.outcome:
        case Succeeded(output):
            return _succeed(draft, step, output, event)
        case Failed() as failed:
            return _fail(draft, step, failed, event)


def _succeed(draft: Draft, step: StepState, output: bytes, event: Report) -> Reply:
    try:
        check_payload(output, "output", len(output), MAX_OUTPUT_DEPTH)
        draft.paid = draft.paid if event.cost is not None else told_cost(draft, step, output)
        output = shaped(draft, draft.node(step), step.place, output)
    except InvalidArgument as refusal:
        error = NodeError(ErrorClass.PERMANENT, "OUTPUT_INVALID", refusal.message)
        return _fail(draft, step, Failed(error), event)
    except ExpressionFailed as failure:
        return _fail(draft, step, Failed(expression_error(failure, step.node)), event)
    done = replace(moved(step, Move.COMPLETE), output=output, error=None)
    if not draft.open:
        draft.end_attempt(step, AttemptOutcome.COMPLETED)
        draft.record("step_completed", draft.put_step(PutStep(done, ended=True)))
        return Applied(tried=tried(draft, step, None))
    draft.record("step_completed", draft.end_node(PutStep(done, ended=True)))
    draft.offer(event.offer)
    advance(draft)
    chained = _chained(draft)
    next_step = chained.step.step if chained else None
    draft.end_attempt(step, AttemptOutcome.COMPLETED, next_step=next_step)
    return Applied(chained, tried(draft, step, None))


def _chained(draft: Draft) -> Granted | None:
    """Return the step that the reporter gets, unless what followed closed the run."""
    if draft.open or draft.chained is None:
        return draft.chained
    take_back(draft, draft.chained.step)
    return None


def _fail(draft: Draft, step: StepState, failed: Failed, event: Report) -> Applied:
    error, wait = replace(failed.error, node=step.node), failed.retry_after
    refused = refused_by(draft, step, failed, event.connection_generation)
    draft.end_attempt(step, AttemptOutcome.FAILED, error=error)
    fail_try(draft, step, error, event.jitter, retry_after=wait, refused=refused)
    return Applied(tried=tried(draft, step, error.category, refused=refused, retry_after=wait))


def _settle(draft: Draft, step: StepState, event: Report) -> None:
    result = event.outcome.output if isinstance(event.outcome, Succeeded) else None
    settle_by_report(draft, step, event.fence, _effect_outcome(event), result)


def _effect_outcome(event: Report) -> EffectOutcome:
    """Return what the report says of the effect; a try that ended well has performed it."""
    untold = EffectOutcome.PERFORMED if isinstance(event.outcome, Succeeded) else None
    return event.effect or untold or EffectOutcome.UNKNOWN


def _earlier(draft: Draft, event: Report) -> AttemptState | None:
    for attempt in draft.attempts:
        if (attempt.step, attempt.fence, attempt.lease_id) == (
            event.step,
            event.fence,
            event.lease_id,
        ):
            return attempt
    return None


def _chained_before(draft: Draft, earlier: AttemptState, event: Report) -> Granted | None:
    """Return the step chained to the first delivery, while that lease lives (p3)."""
    if earlier.next_step is None or event.offer is None:
        return None
    step = draft.steps.get(earlier.next_step)
    if step is None or step.input is None:
        raise ViewTooNarrow(Wanted(steps=frozenset({earlier.next_step})))
    alive = step.status is StepStatus.RUNNING and step.lease_id == event.offer.lease_id
    return repeated_grant(draft, step) if alive else None


def _holder(step: StepState) -> tuple[int, object]:
    return (step.fence, step.lease_id)
