"""Failed tries: another one later, or the end of the node. Only here is a retry decided."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_runtime.backoff import MIN_BASE_SECONDS, full_jitter

from perdure_machine.actions import ExpectedExpiry, PutStep, SetTimer
from perdure_machine.decide.connecting import connection_of, park_refused
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import may_repeat, needs_review
from perdure_machine.decide.stopping import end_cancelled
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.model import RetryRule
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import NodeError, StepState

MAX_RETRY_AFTER = 86_400.0
"""Longest wait, in seconds, that another side may ask for (design section 11)."""

OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
"""The code of a node whose outside call may or may not have been performed."""

_RETRIED_BY_DEFAULT = frozenset({ErrorClass.RETRYABLE, ErrorClass.RATE_LIMITED})


def fail_try(
    draft: Draft,
    step: StepState,
    error: NodeError,
    jitter: float,
    *,
    retry_after: float | None = None,
    expired: ExpectedExpiry | None = None,
    used: int = 0,
) -> None:
    """Count a failed try of a running step; try again by its rules, or fail its node.

    One whose connection was refused is parked instead; `used` is the generation that it had.
    """
    failed = replace(step, failures=step.failures + 1, error=error)
    if not draft.works(step) or step.stopping:
        end_cancelled(draft, failed, expired=expired)
        return
    if needs_review(draft, step):
        error = _outcome_unknown(error)
    rule = matching_rule(draft.node(step).retry or (draft.lane(step).retry,), error)
    connection = connection_of(draft, step) if error.category == ErrorClass.AUTHORISATION else None
    if rule is None and connection and may_repeat(draft, step):
        park_refused(draft, step, error, connection, used)
        return
    if rule is None or failed.failures > rule.max or not may_repeat(draft, step):
        end_failed(draft, failed, error, expired=expired)
        return
    delay = retry_delay(rule, failed.failures, jitter, retry_after)
    back = draft.put_step(PutStep(moved(failed, Move.BACK_OFF), expired=expired))
    draft.actions.append(SetTimer(TimerKind.RETRY, back.step, delay))
    draft.record("step_backing_off", back, code=error.code, message=error.message, seconds=delay)


def fail_forgotten(draft: Draft, step: StepState) -> None:
    """Fail the node of a queued step whose key the provider may have forgotten."""
    error = NodeError(
        ErrorClass.PERMANENT,
        OUTCOME_UNKNOWN,
        "nobody knows whether the call was performed, and its provider keeps the key no longer",
        node=step.node,
    )
    end_failed(draft, step, error)


def fail_unrepeatable(draft: Draft, step: StepState) -> None:
    """Fail the node of a queued step whose call another try of what it stands in has made."""
    error = NodeError(
        ErrorClass.PERMANENT,
        OUTCOME_UNKNOWN,
        "its call was performed before, or nobody knows, and its provider would not recognise it",
        node=step.node,
    )
    end_failed(draft, step, error)


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


def _outcome_unknown(error: NodeError) -> NodeError:
    return NodeError(
        ErrorClass.PERMANENT,
        OUTCOME_UNKNOWN,
        f"nobody knows whether the call was performed, so it is not repeated: {error.message}",
        node=error.node,
    )
