"""Dead letters by filter: listed in pages, and replayed as a bounded snapshot of events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from perdure_runtime import fail_points

from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import write

COMMIT_REPLAYS = fail_points.declare("store.commit_replays")

_LARGEST_ID = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters of an org are meant; what is None matches all, `jobs_only` jobs alone."""

    workflow: str | None = None
    code: str | None = None
    jobs_only: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead letter; `error` is JSON."""

    run_id: UUID
    workflow: str
    workflow_version: int
    node: str
    cause: str
    error: bytes
    created_at: datetime


async def list_dead_letters(
    connection: Connection,
    org: str,
    wanted: DeadLetterFilter,
    *,
    below: UUID | None,
    limit: int,
) -> list[DeadLetterRow]:
    """List dead letters whose run ids are less than `below`, those of the newest runs first."""
    found = await connection.fetch(
        sql("dead_letters.page"),
        org,
        wanted.workflow,
        wanted.code,
        below or _LARGEST_ID,
        limit,
        wanted.jobs_only,
    )
    return [DeadLetterRow(**record) for record in found]


async def replay_later(
    connection: Connection,
    org: str,
    wanted: DeadLetterFilter,
    *,
    limit: int,
    reason: str,
    actor: str = "",
) -> tuple[int, bool]:
    """Have at most `limit` of what matches now retried, each by an internal event of its run.

    Returns how many, and whether more match. `reason` is for their histories and, with `actor`,
    for the audit log, which gets a line unless nothing matches.
    """
    details = {"code": wanted.code, "limit": limit, "reason": reason}
    (found,) = await write(
        connection,
        COMMIT_REPLAYS,
        sql("dead_letters.replay_later"),
        org,
        wanted.workflow,
        wanted.code,
        limit,
        reason.encode(),
        actor,
        json.dumps(details, sort_keys=True).encode(),
        wanted.jobs_only,
    )
    replayed, matched = int(found["replayed"]), int(found["matched"])
    return replayed, matched > replayed
