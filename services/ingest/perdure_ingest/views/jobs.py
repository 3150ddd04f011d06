"""Jobs and their types as messages."""

from __future__ import annotations

import json
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from perdure_contracts.v1 import job_pb2
from perdure_contracts.v1.job_service_pb2 import DeadJob
from perdure_machine.job_types import JobRetry, from_document, type_of
from perdure_store.dead_letters import DeadLetterRow
from perdure_store.reads.jobs import JobRow
from perdure_store.reads.rows import WorkflowRow

from perdure_ingest.start_keys import shown_start_key
from perdure_ingest.views.instants import timestamp
from perdure_ingest.views.runs import attempt_message, error_message


def job_message(row: JobRow) -> job_pb2.Job:
    """Show a job."""
    return job_pb2.Job(
        job_id=str(row.run_id),
        type=type_of(row.workflow),
        type_version=row.workflow_version,
        status=job_pb2.JobStatus.Value(f"JOB_STATUS_{row.status.upper()}"),
        payload=row.input,
        output=row.output or b"",
        last_error=error_message(_last_error(row)),
        failures=row.failures,
        losses=row.losses,
        attempts=[attempt_message(one, with_payloads=True) for one in row.attempts],
        queue=f"{row.lane}:{row.owner}" if row.lane else "",
        worker=row.worker or "",
        parked_on=row.parked_on or "",
        idempotency_key=shown_start_key(row.start_key),
        tags=json.loads(row.tags),
        priority=row.priority,
        created_at=timestamp(row.created_at),
        available_at=timestamp(row.start_at),
        started_at=timestamp(row.started_at),
        next_try_at=timestamp(row.next_try_at),
        ended_at=timestamp(row.ended_at),
    )


def dead_job(row: DeadLetterRow) -> DeadJob:
    """Show a dead letter as the job that it is."""
    return DeadJob(
        job_id=str(row.run_id),
        type=type_of(row.workflow),
        type_version=row.workflow_version,
        cause=row.cause,
        error=error_message(row.error),
        ended_at=timestamp(row.created_at),
    )


def job_type_message(row: WorkflowRow) -> job_pb2.JobType:
    """Show a version of a job type; in lists its document, and so its spec, is left out."""
    return job_pb2.JobType(
        name=type_of(row.name),
        version=row.version,
        spec=spec_message(row.document) if row.document else None,
        created_at=timestamp(row.published_at),
    )


def spec_message(document: bytes) -> job_pb2.JobSpec:
    """Show what a job type says."""
    said = from_document(document)
    spec = job_pb2.JobSpec(
        lane=said.lane,
        connection=said.connection,
        payload_schema=said.payload_schema,
        retry=map(_retry, said.retry),
        timeout=_duration(said.timeout),
        subject=said.subject,
        purpose=said.purpose,
    )
    if said.http:
        spec.http = said.http
    else:
        spec.handler = said.handler
    return spec


def _last_error(row: JobRow) -> bytes | None:
    """Return the newest error there is: why the job ended, or why its latest failed try failed."""
    tried = [one.error for one in row.attempts if one.error is not None]
    return row.error or row.step_error or (tried[-1] if tried else None)


def _retry(rule: JobRetry) -> job_pb2.JobRetry:
    return job_pb2.JobRetry(
        on=rule.on,
        max=rule.max,
        base=_duration(rule.base),
        factor=rule.factor,
        cap=_duration(rule.cap),
    )


def _duration(seconds: float | None) -> Duration | None:
    if seconds is None:
        return None
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message
