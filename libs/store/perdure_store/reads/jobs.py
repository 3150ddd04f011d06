"""Jobs, and the types that they are of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import asyncpg

from perdure_store.pool import Connection
from perdure_store.reads.rows import AttemptRow, WorkflowRow
from perdure_store.reads.runs import ID_CLOCK_MARGIN, LARGEST_ID
from perdure_store.sql import sql

_SMALLEST_ID = UUID(int=0)
_MS_BITS = 80


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs of an org a list shows; what is None or empty matches all."""

    workflow: str | None = None
    status: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    created_from: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job. `error` is why its run ended, `step_error` why its latest try failed; both are JSON.

    Input, output and attempts are empty in lists; attempts are the newest, oldest first.
    """

    run_id: UUID
    workflow: str
    workflow_version: int
    status: str
    error: bytes | None
    step_error: bytes | None
    failures: int
    losses: int
    lane: str | None
    owner: str | None
    worker: str | None
    parked_on: str | None
    start_key: str | None
    tags: bytes
    priority: int
    created_at: datetime
    start_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    next_try_at: datetime | None
    input: bytes
    output: bytes | None
    attempts: tuple[AttemptRow, ...]


async def read_job(connection: Connection, org: str, job_id: UUID) -> JobRow | None:
    """Read one job with its payloads and tries, None if the org has none of that id."""
    found = await _page(connection, org, JobFilter(), job_id, job_id, whole=True, limit=1)
    return found[0] if found else None


async def job_exists(connection: Connection, org: str, job_id: UUID) -> bool:
    """Tell whether the org has a job of this id."""
    return bool(await connection.fetchval(sql("jobs.exists"), org, job_id))


async def list_jobs(
    connection: Connection, org: str, wanted: JobFilter, *, below: UUID | None, limit: int
) -> list[JobRow]:
    """List jobs newest first, those with ids below `below`."""
    last = LARGEST_ID if below is None else UUID(int=max(below.int - 1, 0))
    if wanted.created_before is not None:
        last = min(last, _id_at(wanted.created_before, 1))
    first = _SMALLEST_ID if wanted.created_from is None else _id_at(wanted.created_from, -1)
    return await _page(connection, org, wanted, first, last, whole=False, limit=limit)


async def list_job_types(
    connection: Connection, org: str, *, after: str, limit: int
) -> list[WorkflowRow]:
    """List the latest versions of job types whose workflows sort after `after`, by name."""
    found = await connection.fetch(sql("jobs.list_types"), org, after, limit)
    return [WorkflowRow(**record) for record in found]


async def read_latest_types(
    connection: Connection, org: str, workflows: Collection[str]
) -> dict[str, WorkflowRow]:
    """Read the latest versions of job types by their workflows; those that there are."""
    found = await connection.fetch(sql("jobs.latest_types"), org, workflows)
    return {record["name"]: WorkflowRow(**record) for record in found}


async def _page(
    connection: Connection,
    org: str,
    wanted: JobFilter,
    first: UUID,
    last: UUID,
    *,
    whole: bool,
    limit: int,
) -> list[JobRow]:
    found = await connection.fetch(
        sql("jobs.page"),
        org,
        first,
        last,
        wanted.workflow,
        wanted.status,
        wanted.created_from,
        wanted.created_before,
        list(wanted.tags.keys()),
        list(wanted.tags.values()),
        whole,
        limit,
    )
    return [_job(record) for record in found]


def _job(record: asyncpg.Record) -> JobRow:
    columns = dict(record)
    attempts = tuple(AttemptRow(*row) for row in reversed(columns.pop("attempts")))
    return JobRow(**columns, attempts=attempts)


def _id_at(instant: datetime, sign: int) -> UUID:
    """Return an id before or after all that runs can have that were created at `instant`."""
    milliseconds = int((instant.timestamp() + sign * ID_CLOCK_MARGIN.total_seconds()) * 1000)
    return UUID(int=min(max(milliseconds, 0) << _MS_BITS, LARGEST_ID.int))
