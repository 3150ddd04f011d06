"""What the handlers work with, and the errors that several of them raise."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import asyncpg
from google.protobuf.message import Message
from perdure_runtime.errors import InvalidArgument, NotFound, Reason
from perdure_runtime.rpc.options import MAX_MESSAGE_BYTES

from perdure_ingest.coordinator import Coordinator
from perdure_ingest.job_schemas import JobSchemas
from perdure_ingest.page_tokens import PageTokens
from perdure_ingest.watch.watcher import RunWatcher


@dataclass(frozen=True, slots=True)
class Doors:
    """One process' reads, changes, page tokens, job types and watches."""

    pool: asyncpg.Pool
    coordinator: Coordinator
    tokens: PageTokens
    job_schemas: JobSchemas
    watcher: RunWatcher
    watch_seconds: float


def run_not_found(run_id: UUID) -> NotFound:
    """Build the error of a run that the caller's org does not have."""
    return NotFound(
        f"there is no run {run_id}", reason=Reason.RUN_NOT_FOUND, metadata={"run_id": str(run_id)}
    )


def migration_not_found(migration_id: UUID) -> NotFound:
    """Build the error of a migration that the caller's org does not have."""
    return NotFound(
        f"there is no migration {migration_id}",
        reason=Reason.MIGRATION_NOT_FOUND,
        metadata={"migration_id": str(migration_id)},
    )


def too_large(what: str, size: int, limit: int) -> InvalidArgument:
    """Build the error of an answer that would not fit into a message (F091)."""
    return InvalidArgument(
        f"{what} hold {size} bytes and do not fit into one answer of at most {limit}; "
        "WatchRun shows the run without the payloads of its steps",
        reason=Reason.PAYLOAD_TOO_LARGE,
        metadata={"size": str(size), "limit": str(limit)},
    )


def refuse_oversized(answer: Message) -> None:
    """Raise PAYLOAD_TOO_LARGE for an answer that the transport would refuse without saying why."""
    size = answer.ByteSize()
    if size > MAX_MESSAGE_BYTES:
        raise too_large("the run's steps", size, MAX_MESSAGE_BYTES)
