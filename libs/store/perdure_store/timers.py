"""Timers: the near ones, those whose delivery failed, those of runs that are no more (p5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from perdure_runtime import fail_points

from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import write

COMMIT_PUT_OFF = fail_points.declare("store.commit_put_off")
COMMIT_DROP_ORPHANS = fail_points.declare("store.commit_drop_orphans")


PARK_AFTER = 10
"""Failed deliveries, over 8.5 minutes and more, after which a timer parks the step it is for."""

MAX_FAILURE = 1_000
"""Characters that are kept of what a delivery failed with."""


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """A timer that could not be delivered, and what hindered it."""

    timer_id: int
    failure: str


async def put_off(connection: Connection, failed: Sequence[FailedDelivery]) -> set[int]:
    """Let timers whose delivery failed be tried later and later, so that others come first.

    Returns those that have failed so often that they are to park their steps.
    """
    rows = await write(
        connection,
        COMMIT_PUT_OFF,
        sql("timers.put_off"),
        [one.timer_id for one in failed],
        [one.failure.replace("\0", "")[:MAX_FAILURE] for one in failed],
        PARK_AFTER,
    )
    return {row["timer_id"] for row in rows}


async def drop_orphans(connection: Connection, timer_ids: Sequence[int]) -> None:
    """Delete those of the timers that belong to no run of their org."""
    await write(connection, COMMIT_DROP_ORPHANS, sql("timers.drop_orphans"), timer_ids)


@dataclass(frozen=True, slots=True)
class NearTimer:
    """A timer to try in `remaining` seconds, or now if that is 0 or less.

    It was due `late` seconds ago; that is more than `-remaining` where deliveries failed.
    """

    timer_id: int
    org: str
    run_id: UUID
    remaining: float
    late: float


async def soonest_timers(
    connection: Connection, *, internal: bool, horizon: float, limit: int
) -> list[NearTimer]:
    """Return the `limit` timers that are due first, of those due within `horizon` seconds.

    `internal` picks events that runs sent themselves instead of ordinary timers.
    """
    rows = await connection.fetch(sql("timers.soonest"), internal, horizon, limit)
    return list(map(_near_timer, rows))


async def timers_in_turn(
    connection: Connection,
    *,
    internal: bool,
    horizon: float,
    after_org: str,
    orgs: int,
    places: int,
) -> list[NearTimer]:
    """Return what is due within `horizon` seconds, fairly over orgs.

    At most `orgs` orgs, in the database's order of their names after `after_org`, give their
    soonest timers, each an even share of `places`. It looks at every org that has timers, due or
    not.
    """
    rows = await connection.fetch(sql("timers.in_turn"), internal, horizon, after_org, orgs, places)
    return list(map(_near_timer, rows))


def _near_timer(row: asyncpg.Record) -> NearTimer:
    return NearTimer(row["timer_id"], row["org"], row["run_id"], row["remaining"], row["late"])
