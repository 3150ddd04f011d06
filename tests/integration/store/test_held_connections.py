"""A held connection keeps its plans, but not from a table that was small to one that is large."""

from uuid import UUID

import asyncpg
from perdure_runtime.clock import FakeClock
from perdure_store.held import FIRST_PLANS_SECONDS, HeldConnection
from perdure_store.sql import sql
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import Driver

COPY_STEPS = """
INSERT INTO steps
SELECT (jsonb_populate_record(s, jsonb_build_object('step', i, 'node', 'n' || i))).*
  FROM steps AS s CROSS JOIN generate_series(1000, 3999) AS i WHERE s.run_id = $1 AND s.step = 1
"""
FETCHED = "SELECT sum(idx_tup_fetch) FROM pg_stat_xact_user_tables WHERE relname LIKE 'steps%'"


async def rows_read(connection: asyncpg.Connection, run: UUID) -> int:
    """Return how many rows of steps are read to load one of them and what may follow it."""
    async with connection.transaction():
        before = await connection.fetchval(FETCHED)
        found = await connection.fetch(sql("apply.load_steps"), [run], [1], [True], [True], [1])
        assert len(found) == 1
        return int(await connection.fetchval(FETCHED) - before)


async def test_a_plan_that_was_made_on_a_small_table_is_made_anew_once_it_has_grown(
    driver: Driver, database: Database
) -> None:
    clock = FakeClock()
    held = HeldConnection(database.url("coordinator"), clock, application_name="held")
    await driver.publish({"work": {"task": {"handler": "x"}}})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "work"))
    few = [await rows_read(await held.get(), run) for _ in range(10)][-1]
    admin = await database.connect()
    await admin.execute(COPY_STEPS, run)
    await clock.advance(FIRST_PLANS_SECONDS)
    assert await rows_read(await held.get(), run) == few
    await held.close()
