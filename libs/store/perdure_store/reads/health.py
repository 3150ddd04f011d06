"""What has stopped without an error, for `perdure doctor`. Ages are by the database clock (R7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from perdure_store.pool import Connection
from perdure_store.sql import sql


@dataclass(frozen=True, slots=True)
class StuckRow:
    """A step, or with `step` None a run, that has no durable way forward (R10)."""

    run_id: UUID
    step: int | None
    status: str
    missing: str


@dataclass(frozen=True, slots=True)
class OpenEffectRow:
    """An effect that no running or coming try will settle, or that has been open for long."""

    run_id: UUID
    step: int
    key: str
    kind: str
    status: str
    begun_at: datetime


@dataclass(frozen=True, slots=True)
class UnpickedRow:
    """A queued step whose outbox row has been ready for `age`."""

    run_id: UUID
    step: int
    queue: str
    age: timedelta


@dataclass(frozen=True, slots=True)
class OverdueRow:
    """A timer that was due `late` ago; `step` is None for an event of the run.

    Its delivery failed `tries` times, the latest with `failure`.
    """

    run_id: UUID
    step: int | None
    kind: str
    late: timedelta
    tries: int
    failure: str | None


@dataclass(frozen=True, slots=True)
class ParkedOnTimerRow:
    """A step that was parked because the timer that it waits for failed with `failure`."""

    run_id: UUID
    step: int
    kind: str
    failure: str | None


@dataclass(frozen=True, slots=True)
class EndlessWaitRow:
    """A step that has waited for a signal for `age`, without a deadline."""

    run_id: UUID
    step: int
    name: str
    key: str | None
    age: timedelta


@dataclass(frozen=True, slots=True)
class TroubledRow:
    """A connection that is `disabled`, to `reconnect`, `open` or `missing`; who is parked on it."""

    name: str
    health: str
    parked: int


async def find_troubled(connection: Connection, org: str, limit: int) -> list[TroubledRow]:
    """Find connections that need a person, or that fail."""
    found = await connection.fetch(sql("connections.troubled"), org, limit)
    return [TroubledRow(**record) for record in found]


async def find_stuck(connection: Connection, org: str, limit: int) -> list[StuckRow]:
    """Find what has no way forward."""
    found = await connection.fetch(sql("reads.no_way_forward"), org, limit)
    return [StuckRow(**record) for record in found]


async def find_open_effects(
    connection: Connection, org: str, limit: int, *, grace: timedelta, longest: timedelta
) -> list[OpenEffectRow]:
    """Find open effects.

    One in flight counts when its lease has been over for `grace`, one that is looked up or repeated
    when it was begun longer than `longest` ago.
    """
    found = await connection.fetch(sql("reads.unsettled_effects"), org, limit, grace, longest)
    return [OpenEffectRow(**record) for record in found]


async def find_unpicked(
    connection: Connection, org: str, limit: int, *, older_than: timedelta
) -> list[UnpickedRow]:
    """Find outbox rows that have been ready for longer than `older_than`, oldest first."""
    found = await connection.fetch(sql("reads.work_not_picked"), org, limit, older_than)
    return [UnpickedRow(**record) for record in found]


async def find_overdue(
    connection: Connection, org: str, limit: int, *, later_than: timedelta
) -> list[OverdueRow]:
    """Find timers that are late by more than `later_than`, the latest first."""
    found = await connection.fetch(sql("reads.overdue_timers"), org, limit, later_than)
    return [OverdueRow(**record) for record in found]


async def find_parked_on_timers(
    connection: Connection, org: str, limit: int
) -> list[ParkedOnTimerRow]:
    """Find steps whose timers cannot be delivered, the oldest timers first."""
    found = await connection.fetch(sql("reads.parked_on_timers"), org, limit)
    return [ParkedOnTimerRow(**record) for record in found]


async def find_endless_waits(connection: Connection, org: str, limit: int) -> list[EndlessWaitRow]:
    """Find open waits without a deadline, the oldest first."""
    found = await connection.fetch(sql("reads.endless_waits"), org, limit)
    return [EndlessWaitRow(**record) for record in found]


async def month_head_room(connection: Connection) -> timedelta | None:
    """Tell how long runs can still be made; None when that is a year or more."""
    head_room: timedelta | None = await connection.fetchval(sql("reads.month_head_room"))
    return head_room
