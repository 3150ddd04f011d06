"""Effects that are not settled, and one with everything that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from perdure_store.pool import Connection
from perdure_store.sql import sql


@dataclass(frozen=True, slots=True)
class EffectFilter:
    """Which effects of an org are meant; what is None matches all."""

    run_id: UUID | None = None
    status: str | None = None
    kind: str | None = None
    older_than: timedelta | None = None


@dataclass(frozen=True, slots=True)
class EffectPlace:
    """Where a list stands."""

    begun_at: datetime
    run_id: UUID
    key: str


FIRST = EffectPlace(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0), "")
"""The place before every effect."""


@dataclass(frozen=True, slots=True)
class EffectEntryRow:
    """An effect with its run and the step that waits for it; `result` is read of one alone."""

    run_id: UUID
    workflow: str
    workflow_version: int
    run_status: str
    key: str
    step: int
    node: str
    scope: str
    step_status: str
    kind: str
    status: str
    calls: int
    begun_at: datetime
    settled_at: datetime | None
    note: str
    key_expires_at: datetime | None
    can_look_up: bool
    lease_expires_at: datetime | None
    result: bytes | None = None


@dataclass(frozen=True, slots=True)
class EffectDecisionRow:
    """What a person decided about an effect."""

    decided_at: datetime
    decision: str
    actor: str
    reason: str


async def list_unsettled(
    connection: Connection, org: str, wanted: EffectFilter, *, after: EffectPlace, limit: int
) -> list[EffectEntryRow]:
    """List effects that are not settled after a place, the oldest first."""
    found = await connection.fetch(
        sql("effect_reads.page"),
        org,
        wanted.run_id,
        wanted.status,
        wanted.kind,
        wanted.older_than,
        after.begun_at,
        after.run_id,
        after.key,
        limit,
    )
    return [EffectEntryRow(**record) for record in found]


async def read_effect(
    connection: Connection, org: str, run_id: UUID, key: str
) -> EffectEntryRow | None:
    """Read one effect, None if the org's run has none of that key."""
    found = await connection.fetchrow(sql("effect_reads.one"), org, run_id, key)
    return EffectEntryRow(**found) if found is not None else None


async def read_decisions(
    connection: Connection, org: str, run_id: UUID, key: str
) -> list[EffectDecisionRow]:
    """Read what people decided about an effect, oldest first."""
    found = await connection.fetch(sql("effect_reads.decisions"), org, run_id, key)
    return [EffectDecisionRow(**record) for record in found]


async def run_exists(connection: Connection, org: str, run_id: UUID) -> bool:
    """Tell whether the org has the run."""
    return bool(await connection.fetchval(sql("effect_reads.run_exists"), org, run_id))
