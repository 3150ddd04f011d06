"""A plan that the relay made while the outbox was small serves a burst: it reads few rows of it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import asyncpg
import pytest
from perdure_store.sql import sql
from perdure_testkit.database import Database

ROWS, ORGS = 20_000, 20
READY = f"""
INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, job, created_at)
SELECT 'org' || n % {ORGS}, gen_random_uuid(), 1, 'io', 'shared', 0, n % 2, n % 2, now()
  FROM generate_series(1, $1::integer) AS n
"""
SENT = """
INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, created_at,
                    state, sent_at, entry_id)
SELECT 'org', gen_random_uuid(), 1, 'io', 'shared', 0, 0, now(), 'sent', now(), 'gone'
  FROM generate_series(1, $1::integer) AS n
"""
PLACES = 24
FEW_ROWS, FEW_PAGES = 600, 600

SMALL = {
    "never analysed": (),
    "empty": ("VACUUM ANALYZE outbox",),
    "of one row": (READY.replace("$1", "1"), "VACUUM ANALYZE outbox"),
    "emptied": (READY.replace("$1", "2000"), "DELETE FROM outbox", "VACUUM ANALYZE outbox"),
}


def statements(first: int) -> dict[str, tuple[object, ...]]:
    """The relay's statements and their arguments; rows are ready from id `first` + `ROWS` on."""
    sent, ready = (range(start, start + PLACES) for start in (first, first + ROWS))
    return {
        "few_ready": (PLACES,),
        "ready_queues": (),
        "sent_queues": (),
        "ready_orgs": ("io", "shared", "", 64),
        "pick_ready": ("io", "shared", 0, ["org1", "org2"], [PLACES] * 2, [0, 0], 16),
        "mark_sent": (list(ready), [str(entry) for entry in ready]),
        "sent_rows": ("io", "shared", 0, first, 500),
        "ready_again": (list(sent), ["gone"] * PLACES),
        "oldest_ready": (),
        "oldest": (),
    }


def call(name: str, arguments: Sequence[object]) -> str:
    return f"EXECUTE {name}" + (f"({', '.join(map(literal, arguments))})" if arguments else "")


def literal(argument: object) -> str:
    if isinstance(argument, list):
        return "'{" + ",".join(map(str, argument)) + "}'"
    return f"'{argument}'"


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


@pytest.mark.parametrize("small", SMALL)
async def test_p6_a_plan_for_a_small_outbox_serves_a_burst(database: Database, small: str) -> None:
    admin, relay = await database.connect(), await database.connect("relay")
    for statement in SMALL[small]:
        await admin.execute(statement)
    for name, arguments in statements(0).items():
        await relay.execute(f"PREPARE {name} AS {sql('outbox.' + name)}")
        await relay.execute(call(name, arguments))
    for burst in (SENT, READY):
        await admin.execute(burst, ROWS)
    first = await admin.fetchval("SELECT max(outbox_id) FROM outbox") - 2 * ROWS + 1
    for name, arguments in statements(first).items():
        await _serves(relay, name, arguments)


async def _serves(relay: asyncpg.Connection, name: str, arguments: Sequence[object]) -> None:
    explained = await relay.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call(name, arguments)}"
    )
    plan = json.loads(explained)[0]["Plan"]
    rows = sum(
        (one["Actual Rows"] + one.get("Rows Removed by Filter", 0)) * one["Actual Loops"]
        for one in nodes(plan)
        if one.get("Relation Name") == "outbox"
    )
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    assert rows <= FEW_ROWS, f"{name} touched {rows} rows"
    assert pages <= FEW_PAGES, f"{name} touched {pages} pages"
