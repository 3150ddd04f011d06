"""What stopped moving, and the upkeep of partitions and keys, each in bounded statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from perdure_runtime import fail_points

from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import write

COMMIT_MONTHS = fail_points.declare("store.commit_months")
COMMIT_DROP_KEYS = fail_points.declare("store.commit_drop_keys")

NO_RUN = UUID(int=0)
"""Before every run."""

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """A lease that ran out at `expired_at`; `timed_out`: at its try's timeout."""

    org: str
    run_id: UUID
    step: int
    fence: int
    lease_id: UUID
    expired_at: datetime
    timed_out: bool


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run past its deadline or its age limit, which it reached at `passed_at`."""

    org: str
    run_id: UUID
    passed_at: datetime


@dataclass(frozen=True, slots=True)
class StalledRun:
    """A run that is the first to wait for an exclusive key that nobody has."""

    org: str
    run_id: UUID


@dataclass(frozen=True, slots=True)
class Stuck:
    """A step, or a run where `step` is None, with no way forward; `missing` is what it lacks."""

    org: str
    run_id: UUID
    step: int | None
    status: str
    missing: str


async def database_time(connection: Connection) -> float:
    """Return the database's time in seconds since 1970."""
    return float(await connection.fetchval(sql("clock.now_ms"))) / 1000


async def expired_leases(
    connection: Connection, after: ExpiredLease | None, *, limit: int, well_for: float
) -> list[ExpiredLease]:
    """Return the next leases that ran out, after `after`, so that skipped ones hide none (F057).

    For `well_for` seconds holders could renew. Only leases that could be renewed for a whole lease
    length, or that were taken within that time, are looked at.
    """
    rows = await connection.fetch(
        sql("sweeps.expired_leases"),
        after.expired_at if after else _LONG_AGO,
        after.run_id if after else NO_RUN,
        after.step if after else 0,
        limit,
        well_for,
    )
    return [
        ExpiredLease(
            org=row["org"],
            run_id=row["run_id"],
            step=row["step"],
            fence=row["fence"],
            lease_id=row["lease_id"],
            expired_at=row["lease_expires_at"],
            timed_out=row["timed_out"],
        )
        for row in rows
    ]


async def old_runs(connection: Connection, after: OldRun | None, *, limit: int) -> list[OldRun]:
    """Return the next runs past a limit, after `after`; none hides another (F057).

    A run past both its deadline and its age is listed at each of the two.
    """
    rows = await connection.fetch(
        sql("sweeps.old_runs"),
        after.passed_at if after else _LONG_AGO,
        after.run_id if after else NO_RUN,
        limit,
    )
    return [OldRun(row["org"], row["run_id"], row["passed_at"]) for row in rows]


async def stalled_runs(
    connection: Connection, after: StalledRun | None, *, limit: int
) -> list[StalledRun]:
    """Return the next runs, after `after`, that nothing tells to begin although they may."""
    rows = await connection.fetch(
        sql("exclusive.stalled"), after.run_id if after else NO_RUN, limit
    )
    return [StalledRun(row["org"], row["run_id"]) for row in rows]


async def stuck_page(
    connection: Connection, after: UUID, *, runs: int
) -> tuple[list[Stuck], UUID | None]:
    """Check the next `runs` unfinished runs; return what is stuck and the last run looked at.

    The last run is None where there are no more.
    """
    page = await connection.fetchrow(sql("sweeps.unfinished_page"), after, runs)
    if page is None or page["last"] is None:
        return [], None
    rows = await connection.fetch(sql("sweeps.no_way_forward"), after, page["last"])
    stuck = [Stuck(r["org"], r["run_id"], r["step"], r["status"], r["missing"]) for r in rows]
    return stuck, page["last"]


async def ensure_months(connection: Connection) -> int:
    """Make the partitions of this month and the next two; return how many months were made."""
    (row,) = await write(connection, COMMIT_MONTHS, sql("sweeps.ensure_months"))
    return int(row["made"])


async def head_room(connection: Connection) -> float:
    """Return the seconds until the end of the last month that has partitions."""
    return float(await connection.fetchval(sql("sweeps.head_room")))


async def drop_start_keys(connection: Connection, *, limit: int) -> int:
    """Delete start keys whose retention is over; return how many."""
    rows = await write(connection, COMMIT_DROP_KEYS, sql("sweeps.drop_start_keys"), limit)
    return len(rows)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """How many effects of one status and kind there are, and the age of the oldest in seconds."""

    count: int
    oldest: float


async def unsettled_effects(connection: Connection) -> dict[tuple[str, str], Unsettled]:
    """Return the effects that were begun and not settled, by status and kind."""
    rows = await connection.fetch(sql("sweeps.unsettled_effects"))
    return {
        (row["status"], row["kind"]): Unsettled(row["effects"], max(0.0, row["oldest"]))
        for row in rows
    }


async def oldest_transaction(connection: Connection) -> float:
    """Return the age of the oldest open transaction, in seconds."""
    return float(await connection.fetchval(sql("sweeps.oldest_transaction")))
