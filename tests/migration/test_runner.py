"""The migration runner: once each, in order, whoever else runs it, whatever fails."""

import asyncio
import re
from pathlib import Path

import asyncpg
import pytest
from perdure_runtime.errors import FailedPrecondition, Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_stack.postgres import EmbeddedPostgres
from perdure_store.migrate import LOCK_KEY, migrate, read_status
from perdure_store.migration_files import Phase, bundled_migrations, read_migrations
from perdure_store.pool import open_connection
from perdure_store.schema_version import schema_ready, schema_version
from perdure_testkit.database import Database

BUNDLED = read_migrations(bundled_migrations())


@pytest.fixture
async def connection(empty_database: Database) -> asyncpg.Connection:
    return await empty_database.connect()


def write(folder: Path, **files: str) -> None:
    """Write files named by keyword, whose first underscore only makes it one."""
    for keyword, text in files.items():
        (folder / f"{keyword.removeprefix('_')}.sql").write_text(text)


async def applied(connection: asyncpg.Connection) -> list[str]:
    return [row.name for row in (await read_status(connection, ())).applied]


async def exists(connection: asyncpg.Connection, table: str) -> bool:
    return bool(await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table))


def test_the_bundled_files_are_numbered_without_a_gap() -> None:
    assert [m.version for m in BUNDLED] == list(range(1, len(BUNDLED) + 1))


async def test_a_second_run_changes_nothing(connection: asyncpg.Connection) -> None:
    first = await migrate(connection, BUNDLED)
    before = await connection.fetch("SELECT * FROM schema_migrations")

    assert await migrate(connection, BUNDLED) == ()
    assert first == BUNDLED
    assert await connection.fetch("SELECT * FROM schema_migrations") == before


async def test_nine_runners_at_once_on_a_new_server_apply_each_file_once(
    own_postgres: EmbeddedPostgres,
) -> None:
    names = ["one", "two", "three"]
    for name in names:
        await own_postgres.create_database(name)
    runners = [await asyncpg.connect(own_postgres.dsn(name)) for name in names * 3]
    try:
        done = await asyncio.gather(*(migrate(runner, BUNDLED) for runner in runners))
        for runner in runners:
            assert await applied(runner) == [m.name for m in BUNDLED]
    finally:
        await asyncio.gather(*(runner.close() for runner in runners))

    for database in range(len(names)):
        by_runner = [done[database + 3 * turn] for turn in range(3)]
        assert sum(map(len, by_runner)) == len(BUNDLED)


async def test_a_failing_step_leaves_the_earlier_ones_and_says_what_to_do(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, _0001_pre_a="CREATE TABLE a ();", _0003_pre_c="CREATE TABLE c ();")
    write(tmp_path, _0002_pre_b="CREATE TABLE b (); SELECT 1 / 0;")

    with pytest.raises(FailedPrecondition) as caught:
        await migrate(connection, read_migrations(tmp_path))

    assert re.fullmatch(
        "what: the migration failed: division by zero\n"
        r"where: 0002_pre_b\.sql; earlier ones stay applied, nothing of it was kept"
        "\ndo this: put right what it names .*",
        caught.value.message,
    )
    assert await applied(connection) == ["0001_pre_a.sql"]
    assert not await exists(connection, "b")

    write(tmp_path, _0002_pre_b="CREATE TABLE b ();")
    await migrate(connection, read_migrations(tmp_path))
    assert await applied(connection) == ["0001_pre_a.sql", "0002_pre_b.sql", "0003_pre_c.sql"]


async def test_a_file_changed_after_it_was_applied_is_refused_by_name(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, _0001_pre_a="CREATE TABLE a ();")
    await migrate(connection, read_migrations(tmp_path))
    write(tmp_path, _0001_pre_a="CREATE TABLE a (); ", _0002_pre_b="CREATE TABLE b ();")

    with pytest.raises(FailedPrecondition, match=r"0001 was changed .*\nwhere: 0001_pre_a\.sql"):
        await migrate(connection, read_migrations(tmp_path))

    assert not await exists(connection, "b")


async def test_a_program_of_the_release_before_leaves_a_newer_schema_alone(
    connection: asyncpg.Connection,
) -> None:
    await migrate(connection, BUNDLED)

    assert await migrate(connection, BUNDLED[:-1]) == ()


async def test_the_phases_of_a_deploy_run_what_is_theirs(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, _0001_pre_a="CREATE TABLE a ();", _0002_post_b="DROP TABLE a;")
    files = read_migrations(tmp_path)

    await migrate(connection, files, Phase.PRE)
    assert await exists(connection, "a")
    await migrate(connection, files, Phase.POST)
    assert not await exists(connection, "a")


async def test_a_runner_waits_for_another_only_so_long(
    connection: asyncpg.Connection, empty_database: Database
) -> None:
    other = await empty_database.connect()
    await other.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)

    with pytest.raises(FailedPrecondition, match="another runner has held"):
        await migrate(connection, BUNDLED, lock_wait=0.0)

    await other.execute("SELECT pg_advisory_unlock($1)", LOCK_KEY)
    await migrate(connection, BUNDLED, lock_wait=0.0)


async def test_a_runner_that_failed_does_not_keep_the_lock(
    connection: asyncpg.Connection, empty_database: Database, tmp_path: Path
) -> None:
    write(tmp_path, _0001_pre_a="SELECT 1 / 0;")
    with pytest.raises(FailedPrecondition):
        await migrate(connection, read_migrations(tmp_path))

    await migrate(await empty_database.connect(), BUNDLED, lock_wait=0.0)


async def test_a_file_may_not_end_its_transaction(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    write(tmp_path, _0001_pre_a="CREATE TABLE a (); COMMIT;")

    with pytest.raises(FailedPrecondition, match="ends the transaction"):
        await migrate(connection, read_migrations(tmp_path))


async def test_a_file_outside_of_transactions_runs_by_statement_and_goes_on_after_a_failure(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    start = "-- no transaction\nCREATE TABLE IF NOT EXISTS a (n int);\n"
    index = "CREATE INDEX CONCURRENTLY IF NOT EXISTS a_n ON a (n);\n"
    write(tmp_path, _0001_pre_a=start + "SELECT 1 / 0;\n" + index)
    with pytest.raises(FailedPrecondition, match="statements before the failing one were kept"):
        await migrate(connection, read_migrations(tmp_path))
    assert await exists(connection, "a")
    assert await applied(connection) == []

    write(tmp_path, _0001_pre_a=start + index)
    await migrate(connection, read_migrations(tmp_path))

    assert await exists(connection, "a_n")
    assert await applied(connection) == ["0001_pre_a.sql"]


@pytest.mark.parametrize(("side", "kept"), [("before", 0), ("after", 1)])
async def test_a_break_at_the_commit_is_made_good_by_the_next_run(
    connection: asyncpg.Connection, tmp_path: Path, side: str, kept: int
) -> None:
    write(tmp_path, _0001_pre_a="CREATE TABLE a ();", _0002_pre_b="CREATE TABLE b ();")
    files = read_migrations(tmp_path)

    with arm("store.apply_migration", side, Raise()), pytest.raises(FailedPrecondition):
        await migrate(connection, files)
    assert len(await applied(connection)) == kept

    await migrate(connection, files)
    assert len(await applied(connection)) == len(files)


async def test_a_migration_that_meets_a_held_table_gives_up_soon(
    connection: asyncpg.Connection,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perdure_store.migrate.LOCK_TIMEOUT", "10ms")
    write(tmp_path, _0001_pre_a="CREATE TABLE a ();", _0002_pre_b="DROP TABLE a;")
    await migrate(connection, read_migrations(tmp_path)[:1])
    holder = await empty_database.connect()
    await holder.execute("BEGIN; LOCK TABLE a IN ACCESS SHARE MODE")

    with pytest.raises(FailedPrecondition, match="lock timeout"):
        await migrate(connection, read_migrations(tmp_path))

    assert await applied(connection) == ["0001_pre_a.sql"]


async def test_a_program_tells_whether_the_schema_fits_it(connection: asyncpg.Connection) -> None:
    assert await schema_version(connection) == 0
    with pytest.raises(FailedPrecondition, match="do this: run the migrations"):
        await schema_ready(connection)

    await migrate(connection, BUNDLED)
    newest = BUNDLED[-1].version
    assert await schema_version(connection) == newest
    await schema_ready(connection)
    await schema_ready(connection, newest, newest)
    with pytest.raises(FailedPrecondition, match="do this: start a newer release"):
        await schema_ready(connection, 1, newest - 1)


async def test_an_absent_server_is_said_in_one_shape_without_the_password() -> None:
    with pytest.raises(Unavailable) as caught:
        await open_connection("postgresql://u:secret@127.0.0.1:1/x", application_name="test")

    what, where, do_this = caught.value.message.splitlines()
    assert what.startswith("what: no PostgreSQL can be reached")
    assert where == "where: postgresql://u@127.0.0.1:1/x"
    assert do_this.startswith("do this: start the server")
