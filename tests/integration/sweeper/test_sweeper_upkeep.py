"""Months are made ahead without standing in anybody's way; start keys that are over go (F107)."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from perdure_runtime.clock import SystemClock
from perdure_runtime.election import Leadership
from perdure_store.sweeps import ensure_months
from perdure_sweeper import upkeep
from perdure_sweeper.upkeep import HEAD_ROOM, Months, StartKeys
from perdure_testkit.database import Database
from perdure_testkit.waiting import wait_until_blocked

PARENTS = ("runs", "run_tags", "steps", "attempts", "effects", "history")
FUTURE = """
SELECT to_char(month, 'YYYYMM') FROM months
 WHERE month > date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')
"""
DAY = 86_400.0


@pytest.fixture
def leadership() -> Leadership:
    leads = Leadership("sweeper", SystemClock())
    leads.trust_until(float("inf"))
    return leads


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def drop_future(rows: asyncpg.Connection) -> list[str]:
    """Drop all partitions of the months to come; return the months' endings."""
    endings = [row[0] for row in await rows.fetch(FUTURE)]
    for ending in endings:
        for parent in PARENTS:
            await rows.execute(f"DROP TABLE {parent}_{ending}")
        await rows.execute("DELETE FROM months WHERE to_char(month, 'YYYYMM') = $1", ending)
    return endings


async def partitions(rows: asyncpg.Connection) -> int:
    count: int = await rows.fetchval(
        "SELECT count(*) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhparent"
        " WHERE c.relkind = 'p'"
    )
    return count


def head_room() -> float:
    return float(HEAD_ROOM._value.get())


async def test_months_that_are_missing_are_made(
    database: Database, rows: asyncpg.Connection, leadership: Leadership
) -> None:
    before = await partitions(rows)
    endings = await drop_future(rows)
    assert len(endings) == 2
    months = Months(await database.open_pool("sweeper"), leadership)

    done = await months.run_once()

    assert done.counts == {"months_made": 2}
    assert await partitions(rows) == before
    assert 59 * DAY < head_room() < 93 * DAY
    assert (await months.run_once()).counts == {"months_made": 0}


async def test_f107_making_months_waits_for_nobody_and_makes_nobody_wait(
    database: Database, rows: asyncpg.Connection, leadership: Leadership
) -> None:
    await drop_future(rows)
    months = Months(await database.open_pool("sweeper"), leadership)
    dump, writer = await database.connect(), await database.connect("coordinator")
    async with dump.transaction(), writer.transaction():
        for parent in PARENTS:
            await dump.execute(f"SELECT count(*) FROM {parent}")
        await writer.execute("UPDATE runs SET priority = 1; UPDATE steps SET priority = 1")

        assert (await months.run_once()).counts == {"months_made": 2}


async def test_months_are_made_once_by_rivals(database: Database, rows: asyncpg.Connection) -> None:
    await drop_future(rows)
    before = await partitions(rows)
    first, second = await database.connect("sweeper"), await database.connect("sweeper")
    async with first.transaction():
        await first.execute(
            "SELECT ensure_month(date_trunc('month', now() + interval '1 month')::date)"
        )
        rival = asyncio.create_task(ensure_months(second))
        await wait_until_blocked(first)
    made = await rival

    assert made == 1
    assert await partitions(rows) == before + 2 * len(PARENTS)


async def test_f107_head_room_is_told_also_when_months_cannot_be_made(
    database: Database, rows: asyncpg.Connection, leadership: Leadership
) -> None:
    await drop_future(rows)
    await rows.execute("REVOKE EXECUTE ON FUNCTION ensure_month(date) FROM perdure_sweeper")
    HEAD_ROOM.set(999 * DAY)
    months = Months(await database.open_pool("sweeper"), leadership)

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await months.run_once()

    assert 0 < head_room() < 31 * DAY


async def test_who_does_not_lead_makes_no_months_but_tells_the_head_room(
    database: Database, rows: asyncpg.Connection, leadership: Leadership
) -> None:
    await drop_future(rows)
    leadership.trust_until(float("-inf"))
    HEAD_ROOM.set(0)
    months = Months(await database.open_pool("sweeper"), leadership)

    assert (await months.run_once()).counts == {}

    assert 0 < head_room() < 31 * DAY
    assert await rows.fetch(FUTURE) == []


async def add_keys(rows: asyncpg.Connection, prefix: str, count: int, expires: str) -> None:
    await rows.execute(
        "INSERT INTO start_keys (org, start_key, run_id, digest, created_at, expires_at)"
        " SELECT 'default', $1 || number, gen_random_uuid(), '', now(), now() + $2::text::interval"
        " FROM generate_series(1, $3::integer) AS number",
        prefix,
        expires,
        count,
    )


async def key_counts(rows: asyncpg.Connection) -> dict[str, int]:
    found = await rows.fetch(
        "SELECT left(start_key, 4) AS kind, count(*) FROM start_keys GROUP BY 1"
    )
    return {row["kind"]: row["count"] for row in found}


async def test_start_keys_past_their_retention_go_in_bounded_batches(
    database: Database,
    rows: asyncpg.Connection,
    leadership: Leadership,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "KEYS_AT_ONCE", 10)
    await add_keys(rows, "over", 25, "-1 s")
    await add_keys(rows, "held", 3, "1 h")
    await rows.execute(
        "INSERT INTO start_keys (org, start_key, run_id, digest, created_at)"
        " VALUES ('default', 'open', gen_random_uuid(), '', now())"
    )
    keys = StartKeys(await database.open_pool("sweeper"), leadership)

    passes = [await keys.run_once() for _ in range(3)]

    assert [one.counts["start_keys_dropped"] for one in passes] == [10, 10, 5]
    assert [one.more for one in passes] == [True, True, False]
    assert await key_counts(rows) == {"held": 3, "open": 1}


async def test_f115_a_start_key_that_a_start_holds_is_left_for_later(
    database: Database, rows: asyncpg.Connection, leadership: Leadership
) -> None:
    await add_keys(rows, "over", 3, "-1 s")
    keys = StartKeys(await database.open_pool("sweeper"), leadership)
    start = await database.connect("coordinator")
    async with start.transaction():
        await start.execute("UPDATE start_keys SET expires_at = NULL WHERE start_key = 'over2'")
        assert (await keys.run_once()).counts == {"start_keys_dropped": 2}

    assert await keys.run_once() == await keys.run_once()
    assert await key_counts(rows) == {"over": 1}


async def test_a_missing_month_is_passing_trouble_until_it_is_made(
    database: Database, rows: asyncpg.Connection, leadership: Leadership, calls: Any
) -> None:
    await drop_future(rows)
    months = Months(await database.open_pool("sweeper"), leadership)
    next_month = (
        "INSERT INTO history (run_id, seq, at, kind)"
        " VALUES (uuid7_floor(now() + interval '32 days'), 1, now(), 'made')"
    )
    with pytest.raises(asyncpg.CheckViolationError, match="no partition"):
        await rows.execute(next_month)

    await months.run_once()

    await rows.execute(next_month)
