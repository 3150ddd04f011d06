"""The testkit's own promises: databases apart, ways forward checked, waits bounded."""

import asyncio
from uuid import uuid4

import asyncpg
import pytest
import redis.asyncio as redis
from perdure_testkit.database import ROLES, Database
from perdure_testkit.waiting import blocked_pids, eventually, wait_until_blocked

LOOSE_RUN = """
INSERT INTO runs (run_id, org, workflow_id, workflow, workflow_version, input, created_at)
VALUES (uuid7_floor(clock_timestamp()), 'default', 1, 'w', 1, '{}', clock_timestamp())
"""


async def test_databases_are_apart(database: Database, empty_database: Database) -> None:
    first, second = await database.connect(), await empty_database.connect()

    assert await first.fetchval("SELECT to_regclass('runs') IS NOT NULL")
    assert await second.fetchval("SELECT to_regclass('runs') IS NULL")


@pytest.mark.parametrize("turn", [1, 2])
async def test_a_test_finds_no_rows_of_another(database: Database, turn: int) -> None:
    connection = await database.connect()

    assert await connection.fetchval("SELECT count(*) FROM orgs") == 1
    await connection.execute("INSERT INTO orgs VALUES ($1)", f"turn-{turn}")


@pytest.mark.parametrize("role", ROLES)
async def test_a_connection_is_the_role_that_was_asked_for(database: Database, role: str) -> None:
    connection = await database.connect(role)

    assert await connection.fetchval("SELECT session_user") == f"perdure_{role}"


@pytest.mark.parametrize("turn", [1, 2])
async def test_a_test_finds_no_keys_of_another(redis_url: str, turn: int) -> None:
    client = redis.Redis.from_url(redis_url)
    try:
        assert await client.dbsize() == 0
        await client.set(f"turn-{turn}", 1)
    finally:
        await client.aclose()


@pytest.mark.breaks_r10("proves that the check sees it")
async def test_r10_a_run_that_nothing_moves_is_seen(database: Database) -> None:
    assert await database.without_way_forward() == []
    connection = await database.connect()
    await connection.execute(LOOSE_RUN)

    found = await database.without_way_forward()

    assert len(found) == 1
    assert "no unfinished step and no internal event" in found[0]


async def test_r10_every_part_of_the_view_asks_for_a_running_run(database: Database) -> None:
    connection = await database.connect()

    view = await connection.fetchval("SELECT pg_get_viewdef('no_way_forward'::regclass)")

    parts = view.split("UNION ALL")
    assert len(parts) > 5
    assert [part for part in parts if "r.status = 'running'::run_status" not in part] == []


async def test_rivals_are_seen_while_they_wait_in_a_queue(database: Database) -> None:
    holder = await database.connect()
    rivals = [await database.connect() for _ in range(3)]
    await holder.execute("BEGIN; SELECT FROM lanes WHERE lane = 'io' FOR UPDATE")
    lock = "UPDATE lanes SET shards = shards WHERE lane = 'io'"
    tasks = [asyncio.create_task(rival.execute(lock)) for rival in rivals]

    assert await wait_until_blocked(holder, count=3) == {r.get_server_pid() for r in rivals}

    await holder.execute("COMMIT")
    await asyncio.gather(*tasks)
    assert await blocked_pids(holder) == set()


async def test_what_comes_is_returned_and_what_does_not_is_named() -> None:
    values = iter(["", "", "there"])
    assert await eventually(lambda: next(values)) == "there"

    with pytest.raises(AssertionError, match=r"the ship: still '' after 0\.05 s"):
        await eventually(lambda: "", within=0.05, what="the ship")


async def test_a_database_ends_with_its_connections(database: Database) -> None:
    pool: asyncpg.Pool = await database.open_pool("coordinator", size=2)
    assert await pool.fetchval("SELECT $1::uuid", value := uuid4()) == value
