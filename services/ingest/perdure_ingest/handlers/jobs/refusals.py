"""What is refused of a run, in the words of jobs: the same reasons for what callers may do."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from perdure_machine.job_types import field_of
from perdure_runtime.errors import (
    AlreadyExists,
    FieldViolation,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
)

_INPUT = "input"


def job_not_found(job_id: UUID) -> NotFound:
    """Build the error of a job that the caller's org does not have."""
    return NotFound(
        f"there is no job {job_id}", reason=Reason.JOB_NOT_FOUND, metadata={"job_id": str(job_id)}
    )


def job_type_not_found(name: str, version: int = 0) -> NotFound:
    """Build the error of a job type, or a version of one, that the caller's org does not have."""
    wanted = f"version {version} of job type {name}" if version else f"job type {name}"
    return NotFound(
        f"there is no {wanted}",
        reason=Reason.JOB_TYPE_NOT_FOUND,
        metadata={"type": name, "version": str(version)},
    )


def of_enqueueing(refusal: PerdureError, job_type: str) -> PerdureError:
    """Return what a refused start means for the job that it would have been."""
    if refusal.reason == Reason.WORKFLOW_NOT_FOUND:
        return job_type_not_found(job_type)
    if refusal.reason == Reason.RUN_ALREADY_STARTED:
        first = refusal.metadata.get("run_id", "")
        return AlreadyExists(
            f"another request under this idempotency key enqueued job {first}",
            reason=Reason.JOB_ALREADY_ENQUEUED,
            metadata={"job_id": first},
        )
    if isinstance(refusal, InvalidArgument) and refusal.reason == Reason.FIELD_INVALID:
        return does_not_fit(payload_violations(refusal))
    return refusal


def does_not_fit(violations: Sequence[FieldViolation]) -> InvalidArgument:
    """Build the error of payloads that do not fit their types, or what else a start refused."""
    first = violations[0]
    return InvalidArgument(
        f"{len(violations)} field(s) do not fit: {first.field}: {first.description}",
        violations=violations,
    )


def payload_violations(refusal: InvalidArgument, place: str = "") -> list[FieldViolation]:
    """Return what is wrong with an input as what is wrong with the payload at `place`."""
    return [
        FieldViolation(f"{place}{_of_payload(one.field)}", one.description)
        for one in refusal.violations
    ]


def of_type(refusal: InvalidArgument) -> InvalidArgument:
    """Return what is wrong with a document as what is wrong with the type that it was made of."""
    violations = [
        FieldViolation(_of_spec(one.field), one.description) for one in refusal.violations
    ]
    first = violations[0]
    return InvalidArgument(
        f"the job type has {len(violations)} problem(s): {first.field}: {first.description}",
        violations=violations,
    )


def _of_payload(field: str) -> str:
    if field == _INPUT or field.startswith((f"{_INPUT}.", f"{_INPUT}[")):
        return f"payload{field.removeprefix(_INPUT)}"
    return field


def _of_spec(path: str) -> str:
    return path if path == "name" else f"spec.{field_of(path)}"
