"""What the store makes of trouble with the database: when to try again, and how soon (F048)."""

import asyncio

import asyncpg
import pytest
from perdure_runtime.errors import Aborted, Unavailable
from perdure_runtime.fail_points import declare
from perdure_stack.postgres import EmbeddedPostgres
from perdure_store.classify import BACK_OFF_SECONDS
from perdure_store.pool import acquire, open_connection, open_pool
from perdure_store.transaction import transaction, write
from perdure_testkit.database import Database
from perdure_testkit.waiting import wait_until_blocked

WRITE = declare("tests.store_errors")
INSERT = "INSERT INTO orgs (org) VALUES ($1)"
LOCK_LANE = "SELECT FROM lanes WHERE lane = $1 FOR UPDATE"


@pytest.fixture
async def connection(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def lock_both(connection: asyncpg.Connection, first: str, second: str) -> None:
    """Lock two lanes in an order of one's own, then give them back."""
    await connection.execute("BEGIN")
    await connection.execute(LOCK_LANE, first)
    await connection.execute(LOCK_LANE, second)
    await connection.execute("COMMIT")


async def test_f048_a_lock_time_out_backs_off(
    connection: asyncpg.Connection, database: Database
) -> None:
    holder = await database.connect()
    await holder.execute("BEGIN; SELECT FROM lanes FOR UPDATE")
    await connection.execute("SET lock_timeout = '10ms'")

    with pytest.raises(Unavailable, match="took too long") as caught:
        await write(connection, WRITE, LOCK_LANE, "io")

    assert caught.value.retry_after == BACK_OFF_SECONDS


async def test_f048_a_statement_time_out_backs_off(connection: asyncpg.Connection) -> None:
    await connection.execute("SET statement_timeout = '10ms'")

    with pytest.raises(Unavailable, match="took too long") as caught:
        await write(connection, WRITE, "SELECT pg_sleep(60)")

    assert caught.value.retry_after == BACK_OFF_SECONDS


async def test_f048_a_deadlock_is_decided_again_at_once(
    connection: asyncpg.Connection, database: Database
) -> None:
    rival, locked = await database.connect(), asyncio.Event()
    await connection.execute("SET deadlock_timeout = '10ms'")

    async def close_circle() -> None:
        async with transaction(connection, WRITE):
            await connection.execute(LOCK_LANE, "io")
            locked.set()
            await wait_until_blocked(connection)
            await connection.execute(LOCK_LANE, "slow")

    closing = asyncio.create_task(close_circle())
    await locked.wait()
    waiting = asyncio.create_task(lock_both(rival, "slow", "io"))

    with pytest.raises(Aborted):
        await closing

    await waiting


async def test_a_terminated_backend_is_unavailable_and_the_pool_goes_on(
    database: Database, connection: asyncpg.Connection
) -> None:
    pool = await database.open_pool(size=1)
    async with acquire(pool) as lent:
        pid = lent.get_server_pid()
    await connection.execute("SELECT pg_terminate_backend($1, 10000)", pid)

    for _ in range(2):
        try:
            async with acquire(pool) as lent:
                await write(lent, WRITE, "SELECT 1")
        except Unavailable as error:
            assert error.retry_after == BACK_OFF_SECONDS  # noqa: PT017 - the pool may notice first
        else:
            break
    else:
        pytest.fail("the pool kept a dead connection")


async def test_a_transaction_idle_for_too_long_is_unavailable(
    connection: asyncpg.Connection, database: Database
) -> None:
    ended = asyncio.Event()
    connection.add_termination_listener(lambda _: ended.set())
    await connection.execute("SET idle_in_transaction_session_timeout = '10ms'")

    async def dawdle() -> None:
        async with transaction(connection, WRITE):
            await connection.execute(INSERT, "a")
            await ended.wait()
            await connection.execute(INSERT, "b")

    with pytest.raises(Unavailable):
        await dawdle()

    assert await (await database.connect()).fetchval("SELECT count(*) FROM orgs") == 1


async def test_a_server_that_dies_is_unavailable_and_comes_back(
    own_postgres: EmbeddedPostgres,
) -> None:
    pool = await open_pool(own_postgres.dsn(), size=2, application_name="test")
    asking = asyncio.create_task(sleep_in(pool))
    await own_postgres.kill()

    with pytest.raises(Unavailable):
        await asking
    with pytest.raises(Unavailable):
        await sleep_in(pool)

    await own_postgres.start()
    async with acquire(pool) as lent:
        assert await lent.fetchval("SELECT 1") == 1
    await pool.close()


async def sleep_in(pool: asyncpg.Pool) -> None:
    async with acquire(pool) as lent:
        await write(lent, WRITE, "SELECT pg_sleep(60)")


async def test_too_many_connections_back_off(own_postgres: EmbeddedPostgres) -> None:
    admin = await open_connection(own_postgres.dsn(), application_name="test")
    await admin.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")

    with pytest.raises(Unavailable) as caught:
        await open_connection(own_postgres.dsn(user="crowded"), application_name="test")

    assert caught.value.retry_after == BACK_OFF_SECONDS
    await admin.close()


async def test_a_pool_without_a_free_connection_is_unavailable(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure_store.pool.ACQUIRE_TIMEOUT", 0.01)
    pool = await database.open_pool(size=1)

    async with acquire(pool):
        with pytest.raises(Unavailable):
            await acquire(pool).__aenter__()


async def test_an_error_that_is_no_trouble_stays_what_it_is(connection: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        await write(connection, WRITE, "SELECT * FROM no_such_table")
