"""How a try ended, as the executors say it and as the coordinator is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from perdure_contracts.internal.v1 import coordinator_service_pb2, dispatch_pb2
from perdure_runtime.errors import clean_text

MAX_OUTPUT_BYTES = 1024 * 1024
"""Largest output the coordinator takes."""

MAX_DETAILS_BYTES = 16 * 1024
"""Largest details sent with a failure; larger ones are left out, so that it always gets through."""

MAX_CODE_CHARACTERS = 120


class ErrorClass(StrEnum):
    """What a failure means for retries (design section 11)."""

    RETRYABLE = "retryable"
    RATE_LIMITED = "rate_limited"
    AUTHORISATION = "authorisation"
    PERMANENT = "permanent"


class Effect(StrEnum):
    """What is known of the step's outside effect (design section 8)."""

    NONE = "none"  # the step has none
    PERFORMED = "performed"
    NOT_PERFORMED = "not_performed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Completed:
    """The try ended well; `output` is JSON, `cost` what it spent in millionths, None if unknown."""

    output: bytes
    effect: Effect = Effect.NONE
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class RefusedConnection:
    """Another connection than the node's own, whose credentials were refused, and their generation,
    0 if that is not known.
    """

    name: str
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The try failed; `details` is JSON or empty, `retry_after` the seconds that were asked for."""

    error_class: ErrorClass
    code: str
    message: str
    details: bytes = b""
    retry_after: float | None = None
    effect: Effect = Effect.NONE
    cost: int | None = None
    refused: RefusedConnection | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """The step goes on without this try, of which nothing is reported; `why` is for logs."""

    why: str


Ended = Completed | Failed
"""An outcome that is reported."""

Outcome = Ended | Dropped

_EFFECTS = {
    Effect.NONE: dispatch_pb2.EFFECT_OUTCOME_UNSPECIFIED,
    Effect.PERFORMED: dispatch_pb2.EFFECT_OUTCOME_PERFORMED,
    Effect.NOT_PERFORMED: dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED,
    Effect.UNKNOWN: dispatch_pb2.EFFECT_OUTCOME_UNKNOWN,
}


def bounded(outcome: Outcome, max_output: int) -> Outcome:
    """Return `outcome`, or the failure that it is when its output is over `max_output` bytes.

    The failure says sizes and carries nothing of the output, so it cannot be too large itself.
    """
    if not isinstance(outcome, Completed) or len(outcome.output) <= max_output:
        return outcome
    return Failed(
        ErrorClass.PERMANENT,
        "OUTPUT_TOO_LARGE",
        f"the output holds {len(outcome.output)} bytes; at most {max_output} are allowed: "
        "store it elsewhere and return a reference",
        effect=outcome.effect,
        cost=outcome.cost,
    )


def timed_out(timeout: float, effect: Effect) -> Failed:
    """Return the failure of a try that took longer than `timeout` seconds."""
    return Failed(
        ErrorClass.RETRYABLE, "TIMEOUT", f"the try took longer than {timeout:g} s", effect=effect
    )


def refused_report(outcome: Ended, code: str, message: str) -> Failed:
    """Return what to report when the coordinator refused `outcome` itself and always will."""
    text = f"the result was refused: {message}"
    return Failed(ErrorClass.PERMANENT, code, text, effect=outcome.effect)


def to_report(
    lease: dispatch_pb2.StepLease, outcome: Ended, next_lease_id: str
) -> coordinator_service_pb2.ReportResultItem:
    """Return the report of `outcome`; an empty `next_lease_id` takes no next step."""
    item = coordinator_service_pb2.ReportResultItem(
        lease=lease, effect_outcome=_EFFECTS[outcome.effect], next_lease_id=next_lease_id
    )
    if outcome.cost is not None:
        item.cost_micros = outcome.cost
    if isinstance(outcome, Completed):
        item.output = outcome.output
    else:
        item.failure.CopyFrom(_failure(outcome))
    return item


def _failure(failed: Failed) -> dispatch_pb2.StepFailure:
    kept = failed if len(failed.details) <= MAX_DETAILS_BYTES else replace(failed, details=b"")
    failure = dispatch_pb2.StepFailure(
        code=clean_text(kept.code, limit=MAX_CODE_CHARACTERS),
        message=clean_text(kept.message),
        details=kept.details,
        retry_after_ms=round((kept.retry_after or 0.0) * 1000),
    )
    if kept.refused is not None:
        failure.refused_connection = kept.refused.name
        failure.refused_generation = kept.refused.generation
    # The field's name is a keyword of Python.
    setattr(failure, "class", str(kept.error_class))
    return failure
