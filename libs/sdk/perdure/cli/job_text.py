"""What people see of jobs: rows of lists, and one job with its tries."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure_contracts.v1 import job_pb2, run_pb2
from perdure_contracts.v1 import job_service_pb2 as pb

from perdure.cli.output import clock_time, coloured, duration, moment, one_line, table_lines, word
from perdure.start_keys import OWN_KEY_PREFIX

LISTED = ("job", "type", "status", "enqueued", "failures", "last error")
DEAD = ("job", "type", "cause", "ended", "error")


def listed_row(job: job_pb2.Job) -> tuple[str, ...]:
    """Return the cells of a job in a list."""
    return (
        job.job_id,
        _type(job.type, job.type_version),
        coloured(word(job)),
        clock_time(moment(job.created_at)),
        str(job.failures),
        _error(job.last_error),
    )


def dead_row(job: pb.DeadJob) -> tuple[str, ...]:
    """Return the cells of a job that failed for good."""
    return (
        job.job_id,
        _type(job.type, job.type_version),
        job.cause,
        clock_time(moment(job.ended_at)),
        _error(job.error),
    )


def whole_job(job: job_pb2.Job, now: datetime) -> list[str]:
    """Return a job on one screen: where it stands and why, what it was given, its tries."""
    lines = [
        f"job {job.job_id}  {_type(job.type, job.type_version)}  {coloured(word(job))}",
        f"  enqueued  {clock_time(moment(job.created_at))}{_key(job)}",
    ]
    lines += [f"  {name:<8}  {text}" for name, text in _facts(job, now) if text]
    if job.attempts:
        lines += ["", *table_lines(("try", "worker", "outcome", "took", "error"), _tries(job))]
    return lines


def _facts(job: job_pb2.Job, now: datetime) -> list[tuple[str, str]]:
    return [
        ("begins", _instant(job, "available_at") if not job.HasField("started_at") else ""),
        ("worker", job.worker),
        ("parked", job.parked_on),
        ("next try", _due(job, now)),
        ("payload", one_line(job.payload.decode(errors="replace"))),
        ("output", one_line(job.output.decode(errors="replace"))),
        ("error", _error(job.last_error, 200)),
        ("ended", _instant(job, "ended_at")),
    ]


def _tries(job: job_pb2.Job) -> list[tuple[str, ...]]:
    return [
        (
            str(one.fence),
            one.worker,
            coloured(one.outcome),
            duration(moment(one.ended_at) - moment(one.started_at)),
            _error(one.error),
        )
        for one in job.attempts
    ]


def _due(job: job_pb2.Job, now: datetime) -> str:
    if not job.HasField("next_try_at"):
        return ""
    return f"in {duration(moment(job.next_try_at) - now.astimezone(UTC))}"


def _instant(job: job_pb2.Job, field: str) -> str:
    # The names are those of the contract's optional instants.
    return clock_time(moment(getattr(job, field))) if getattr(job, field).seconds else ""


def _key(job: job_pb2.Job) -> str:
    key = job.idempotency_key
    return f"  key {key}" if key and not key.startswith(OWN_KEY_PREFIX) else ""


def _type(name: str, version: int) -> str:
    return f"{name} v{version}"


def _error(error: run_pb2.RunError, width: int = 80) -> str:
    return one_line(f"{error.code}: {error.message}", width) if error.code else ""
