"""What a pick touches of 200,000 waiting rows, counted so that no load matters: rows and pages."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from perdure_store.sql import sql
from perdure_testkit.database import Database

ROWS, CHUNK = 200_000, 20_000
BUSY = """
INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, job, created_at)
SELECT 'busy', gen_random_uuid(), 1, 'io', 'shared', n % 256, 0, n % 3, now()
  FROM generate_series($1::integer, $2::integer) AS n
"""
QUIET = """
INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, job, created_at)
SELECT 'quiet', gen_random_uuid(), 1, 'io', 'shared', 0, 0, 1, now();
ANALYZE outbox;
"""
PLACES = 24

STATEMENTS = [
    ("ready_queues", (), 30),
    ("ready_orgs", ("io", "shared", "", 64), 60),
    ("pick_ready", ("io", "shared", 0, ["busy", "quiet"], [PLACES, PLACES], [0, 0], 16), 150),
    ("oldest_ready", (), 60),
]
"""Statement, its arguments, and the pages that it may touch."""

TOUCHED_ROWS = 150


@pytest.fixture
async def connection(database: Database) -> asyncpg.Connection:
    admin = await database.connect()
    for first in range(1, ROWS, CHUNK):  # each within the time that a statement has
        await admin.execute(BUSY, first, first + CHUNK - 1)
    await admin.execute(QUIET)
    return await database.connect("relay")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def test_p6_a_pick_over_200000_rows_touches_few_of_them(
    connection: asyncpg.Connection,
) -> None:
    for name, arguments, pages in STATEMENTS:
        explained = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql('outbox.' + name)}", *arguments
        )
        (found,) = json.loads(explained)
        plan = found["Plan"]
        touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        rows = sum(
            (one["Actual Rows"] + one.get("Rows Removed by Filter", 0)) * one["Actual Loops"]
            for one in nodes(plan)
            if one.get("Relation Name") == "outbox"
        )
        assert touched <= pages, f"{name} touched {touched} pages"
        assert rows <= TOUCHED_ROWS, f"{name} touched {rows} rows"
