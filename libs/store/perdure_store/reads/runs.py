"""Runs: whole ones, lists, histories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from perdure_store.org_reads import reading
from perdure_store.pool import Connection, acquire
from perdure_store.reads.rows import (
    AttemptRow,
    EffectRow,
    HistoryRow,
    PublishedRow,
    RunRow,
    RunSnapshot,
    ScopeRow,
    StepRow,
)
from perdure_store.sql import sql

LARGEST_ID = UUID(int=(1 << 128) - 1)

ID_CLOCK_MARGIN = timedelta(hours=1)
"""How far the time in a run's id may lie from its `created_at`: ids are made a moment before."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_LAST_ID_INSTANT = datetime(9998, 1, 1, tzinfo=UTC)
_OF_SNAPSHOT = ("steps", "attempts", "effects", "published")


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that somebody looks at, and the revision they know."""

    org: str
    run_id: UUID
    revision: int = -1


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs of an org a list shows; what is None or empty matches all."""

    workflow: str | None = None
    status: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    created_from: datetime | None = None
    created_before: datetime | None = None
    parent: UUID | None = None
    paused: bool | None = None
    compensating: bool | None = None


async def read_run(
    pool: asyncpg.Pool, org: str, run_id: UUID, *, with_payloads: bool, scope: str = ""
) -> RunSnapshot | None:
    """Read one run with the steps of a scope, None if the org has none of that id."""
    watched = [Watched(org, run_id)]
    found = await _snapshots(pool, org, watched, with_payloads=with_payloads, scope=scope)
    return found[0] if found else None


async def read_changed(pool: asyncpg.Pool, watched: Sequence[Watched]) -> list[RunSnapshot]:
    """Read those runs that are past the revision known of them, without payloads.

    One query finds them (p12), and one more reads those of each org that has some.
    """
    by_org: defaultdict[str, list[Watched]] = defaultdict(list)
    async with acquire(pool) as connection:
        for row in await connection.fetch(sql("reads.runs_past"), *_columns(watched)):
            by_org[row["org"]].append(Watched(row["org"], row["run_id"]))
    found: list[RunSnapshot] = []
    for org, changed in by_org.items():
        found += await _snapshots(pool, org, changed, with_payloads=False, scope="")
    return found


async def read_published(
    pool: asyncpg.Pool, org: str, run_id: UUID, name: str
) -> tuple[bool, bytes | None]:
    """Tell whether a node of the run publishes under `name`, and the value if it has."""
    async with reading(pool, org) as connection:
        row = await connection.fetchrow(sql("reads.published"), org, run_id, name)
    return (row is not None, row["output"] if row is not None else None)


async def payload_bytes(pool: asyncpg.Pool, org: str, run_id: UUID, scope: str) -> int:
    """Sum the sizes of payloads and errors of a run and a scope; 0 if the org has no such run."""
    async with reading(pool, org) as connection:
        return int(await connection.fetchval(sql("reads.run_payload_bytes"), run_id, scope))


async def list_scopes(
    connection: Connection, org: str, run_id: UUID, step: int, *, start: int, limit: int
) -> list[ScopeRow]:
    """List the scopes of a step from the place `start` on, in the order of their places."""
    query = sql("reads.list_scopes")
    found = await connection.fetch(query, org, run_id, step, start, limit)
    return [ScopeRow(**record) for record in found]


async def list_runs(
    connection: Connection, org: str, wanted: RunFilter, *, below: UUID | None, limit: int
) -> list[RunRow]:
    """List runs newest first, those with ids below `below`."""
    found = await connection.fetch(
        sql("reads.list_runs"),
        org,
        below or LARGEST_ID,
        wanted.workflow,
        wanted.status,
        _id_instant(wanted.created_from, -ID_CLOCK_MARGIN),
        _id_instant(wanted.created_before, ID_CLOCK_MARGIN),
        wanted.created_from,
        wanted.created_before,
        list(wanted.tags.keys()),
        list(wanted.tags.values()),
        limit,
        wanted.parent,
        _earliest_child(wanted.parent) if wanted.parent else None,
        wanted.paused,
        wanted.compensating,
    )
    return [RunRow(**record) for record in found]


async def run_exists(connection: Connection, org: str, run_id: UUID) -> bool:
    """Tell whether the org has the run."""
    return bool(await connection.fetchval(sql("reads.run_exists"), org, run_id))


async def read_history(
    connection: Connection, run_id: UUID, *, after: int, limit: int
) -> list[HistoryRow]:
    """Read history lines numbered above `after`, oldest first."""
    found = await connection.fetch(sql("reads.run_history"), run_id, after, limit)
    return [HistoryRow(**record) for record in found]


async def _snapshots(
    pool: asyncpg.Pool, org: str, watched: Sequence[Watched], *, with_payloads: bool, scope: str
) -> list[RunSnapshot]:
    query = sql("reads.run_snapshots")
    async with reading(pool, org) as connection:
        found = await connection.fetch(query, *_columns(watched), with_payloads, scope)
    return [_snapshot(record) for record in found]


def _columns(watched: Sequence[Watched]) -> tuple[list[str], list[UUID], list[int]]:
    return (
        [each.org for each in watched],
        [each.run_id for each in watched],
        [each.revision for each in watched],
    )


def _earliest_child(parent: UUID) -> UUID:
    """Return the smallest id that a child of the run can have, so that months are pruned."""
    margin = int(ID_CLOCK_MARGIN.total_seconds() * 1000)
    return UUID(int=max((parent.int >> 80) - margin, 0) << 80)


def _id_instant(instant: datetime | None, margin: timedelta) -> datetime | None:
    """Shift a bound, and keep it where ids can be: they hold no time before 1970."""
    if instant is None:
        return None
    return min(max(instant, _EPOCH + ID_CLOCK_MARGIN), _LAST_ID_INSTANT) + margin


def _snapshot(record: asyncpg.Record) -> RunSnapshot:
    run = {name: value for name, value in record.items() if name not in _OF_SNAPSHOT}
    return RunSnapshot(
        run=RunRow(**run),
        steps=tuple(StepRow(*row) for row in record["steps"]),
        attempts=tuple(AttemptRow(*row) for row in record["attempts"]),
        effects=tuple(EffectRow(*row) for row in record["effects"]),
        published=tuple(PublishedRow(*row) for row in record["published"]),
    )
