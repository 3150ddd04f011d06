"""Failed tries: another one later, or the end of the node. Only here is a retry decided."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_runtime.backoff import MIN_BASE_SECONDS, full_jitter

from perdure_machine.actions import ExpectedExpiry, PutStep, SetTimer
from perdure_machine.decide.connecting import park_refused
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import is_begun
from perdure_machine.decide.stopping import end_cancelled
from perdure_machine.decide.suspending import suspend_for_call
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.model import RetryRule
from perdure_machine.events import RefusedConnection
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.states import EffectStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import NodeError, StepState

MAX_RETRY_AFTER = 86_400.0
"""Longest wait, in seconds, that another side may ask for (design section 11)."""

OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
"""The code of a node whose outside call may or may not have been performed."""

_SETTLED = EffectStatus.SETTLED
_RETRIED_BY_DEFAULT = frozenset({ErrorClass.RETRYABLE, ErrorClass.RATE_LIMITED})


def fail_try(
    draft: Draft,
    step: StepState,
    error: NodeError,
    jitter: float,
    *,
    retry_after: float | None = None,
    expired: ExpectedExpiry | None = None,
    refused: RefusedConnection | None = None,
) -> None:
    """Count a failed try of a running step; try again by its rules, or fail its node.

    One that met a connection which `refused` is parked instead.
    """
    failed = replace(step, failures=step.failures + 1, error=error)
    if not draft.works(step) or step.stopping:
        end_cancelled(draft, failed, expired=expired)
        return
    rule = _rule(draft, step, error)
    is_over = rule is None or failed.failures > rule.max
    calls = is_begun(draft, step)
    was_performed = calls and _was_performed(draft, step)
    if rule is None and refused is not None and not was_performed:
        # What is looked up comes after the repair: before it each look-up would be refused too.
        if calls or not suspend_for_call(draft, failed, jitter, expired):
            park_refused(draft, step, error, refused)
        return
    if (is_over or calls) and suspend_for_call(draft, failed, jitter, expired):
        return
    if rule is None or is_over or was_performed:
        end_failed(draft, failed, error, expired=expired)
        return
    delay = retry_delay(rule, failed.failures, jitter, retry_after)
    back = draft.put_step(PutStep(moved(failed, Move.BACK_OFF), expired=expired))
    draft.actions.append(SetTimer(TimerKind.RETRY, back.step, delay))
    draft.record("step_backing_off", back, code=error.code, message=error.message, seconds=delay)


def fail_unrepeatable(draft: Draft, step: StepState) -> None:
    """Fail the node of a queued step whose call was performed, with a result that is not known."""
    error = NodeError(
        ErrorClass.PERMANENT,
        OUTCOME_UNKNOWN,
        "its call was performed before, and its provider would not recognise a repeat",
        node=step.node,
    )
    end_failed(draft, step, error)


def is_exhausted(draft: Draft, step: StepState, error: NodeError) -> bool:
    """Tell whether a step has had all the tries that it may have after such an error."""
    rule = _rule(draft, step, error)
    return rule is None or step.failures > rule.max


def matching_rule(rules: Sequence[RetryRule], error: NodeError) -> RetryRule | None:
    """Return the first rule for the error; a rule without `on` takes what is worth retrying."""
    for rule in rules:
        if (
            rule.on & {error.code, error.category}
            if rule.on
            else (error.category in _RETRIED_BY_DEFAULT)
        ):
            return rule
    return None


def retry_delay(rule: RetryRule, failures: int, jitter: float, retry_after: float | None) -> float:
    """Return the seconds until the next try; what the other side asked for wins (F043)."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), MAX_RETRY_AFTER)
    base = rule.base if rule.base >= MIN_BASE_SECONDS else 0.0
    return full_jitter(failures, base, rule.factor, rule.cap, jitter)


def _rule(draft: Draft, step: StepState, error: NodeError) -> RetryRule | None:
    return matching_rule(draft.node(step).retry or (draft.lane(step).retry,), error)


def _was_performed(draft: Draft, step: StepState) -> bool:
    """Tell whether the step's call was performed, so that another try would come to nothing.

    Where its result is known the next try takes that, and calls nothing.
    """
    calls = (one.call for one in draft.begun_effects(step.step) if one.status is _SETTLED)
    return any(call is not None and call.result is None for call in calls)
