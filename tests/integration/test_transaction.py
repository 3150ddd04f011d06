"""What a transaction keeps, and what happens only after its commit (R2)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from perdure_runtime.errors import Aborted, Internal, InvalidArgument, Unavailable
from perdure_runtime.fail_points import Pause, Raise, arm, declare
from perdure_store.transaction import transaction, write
from perdure_testkit.database import Database
from perdure_testkit.waiting import wait_until_blocked

COMMIT = declare("tests.commit")
INSERT = "INSERT INTO orgs (org) VALUES ($1)"


@pytest.fixture
async def connection(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
def stored(database: Database) -> Callable[[], Awaitable[set[str]]]:
    async def orgs() -> set[str]:
        other = await database.connect()
        return {row["org"] for row in await other.fetch("SELECT org FROM orgs")} - {"default"}

    return orgs


Stored = Callable[[], Awaitable[set[str]]]


async def store(
    connection: asyncpg.Connection, org: str, seen: list[str], error: type[Exception] | None = None
) -> None:
    """Insert an org in a transaction with a hook; raise `error` in its body."""
    async with transaction(connection, COMMIT) as tx:
        tx.on_commit(lambda: seen.append("hook"))
        await connection.execute(INSERT, org)
        if error is not None:
            raise error


async def in_transaction(connection: asyncpg.Connection, query: str) -> None:
    async with transaction(connection, COMMIT):
        await connection.execute(query)


async def test_r2_hooks_run_after_the_commit_in_order(
    connection: asyncpg.Connection, stored: Stored
) -> None:
    seen: list[object] = []

    async def look() -> None:
        seen.append(await stored())

    async with transaction(connection, COMMIT) as tx:
        tx.on_commit(look)
        tx.on_commit(lambda: seen.append("second"))
        await connection.execute(INSERT, "a")
        assert seen == []

    assert seen == [{"a"}, "second"]


async def test_r2_no_hook_runs_before_the_commit_has_answered(
    connection: asyncpg.Connection, stored: Stored
) -> None:
    seen: list[str] = []
    pause = Pause()

    with arm("tests.commit", "before", pause):
        task = asyncio.create_task(store(connection, "a", seen))
        await pause.reached.wait()
        assert await stored() == set()
        assert seen == []
        pause.release.set()
        await task

    assert seen == ["hook"]


async def test_r2_an_error_in_a_hook_is_logged_and_hinders_nobody(
    connection: asyncpg.Connection, stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def fail() -> None:
        raise LookupError("no such peer")

    with caplog.at_level(logging.ERROR):
        async with transaction(connection, COMMIT) as tx:
            tx.on_commit(fail)
            tx.on_commit(lambda: seen.append("second"))
            await connection.execute(INSERT, "a")

    assert await stored() == {"a"}
    assert seen == ["second"]
    assert "no such peer" in caplog.text


async def test_an_error_in_the_body_leaves_nothing(
    connection: asyncpg.Connection, stored: Stored
) -> None:
    seen: list[str] = []

    with pytest.raises(LookupError):
        await store(connection, "a", seen, LookupError)

    assert await stored() == set()
    assert seen == []
    assert not connection.is_in_transaction()


async def test_a_failure_before_the_commit_leaves_nothing(
    connection: asyncpg.Connection, stored: Stored
) -> None:
    seen: list[str] = []

    with arm("tests.commit", "before", Raise()), pytest.raises(Unavailable):
        await store(connection, "a", seen)

    assert await stored() == set()
    assert seen == []
    assert not connection.is_in_transaction()


async def test_a_failure_after_the_commit_leaves_what_was_stored_and_says_nothing(
    connection: asyncpg.Connection, stored: Stored
) -> None:
    seen: list[str] = []

    with arm("tests.commit", "after", Raise()), pytest.raises(Unavailable):
        await store(connection, "a", seen)

    assert await stored() == {"a"}
    assert seen == []


async def test_a_cancelled_body_leaves_nothing_and_a_usable_connection(
    connection: asyncpg.Connection, database: Database, stored: Stored
) -> None:
    holder = await database.connect()
    await holder.execute("BEGIN")
    await holder.execute(INSERT, "b")

    async def store_two() -> None:
        async with transaction(connection, COMMIT):
            await connection.execute(INSERT, "a")
            await connection.execute(INSERT, "b")

    task = asyncio.create_task(store_two())
    await wait_until_blocked(holder)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await holder.execute("ROLLBACK")

    assert await stored() == set()
    await in_transaction(connection, "INSERT INTO orgs (org) VALUES ('c')")
    assert await stored() == {"c"}


async def test_a_rollback_that_does_not_end_gives_the_connection_up(
    connection: asyncpg.Connection, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure_store.transaction.ROLLBACK_TIMEOUT", 0.0)

    with pytest.raises(LookupError):
        await store(connection, "a", [], LookupError)

    assert connection.is_closed()
    assert await stored() == set()


async def test_transactions_do_not_nest(connection: asyncpg.Connection) -> None:
    async with transaction(connection, COMMIT):
        with pytest.raises(RuntimeError, match="in a transaction already"):
            async with transaction(connection, COMMIT):
                pass
        with pytest.raises(RuntimeError, match="in a transaction already"):
            await write(connection, COMMIT, INSERT, "a")


async def test_a_single_statement_commits_by_itself_at_its_fail_point(
    connection: asyncpg.Connection, stored: Stored
) -> None:
    with arm("tests.commit", "before", Raise()), pytest.raises(Unavailable):
        await write(connection, COMMIT, INSERT, "a")
    assert await stored() == set()

    with arm("tests.commit", "after", Raise()), pytest.raises(Unavailable):
        await write(connection, COMMIT, INSERT, "b")
    assert await stored() == {"b"}

    rows = await write(connection, COMMIT, f"{INSERT} RETURNING org", "c")
    assert [row["org"] for row in rows] == ["c"]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("INSERT INTO orgs (org) VALUES ('default')", Aborted),
        ("INSERT INTO orgs (org) VALUES ('')", InvalidArgument),
        ("INSERT INTO months (month) VALUES ('2026-01-02')", Internal),
        ("INSERT INTO months (month) VALUES (NULL)", Internal),
    ],
)
async def test_a_refused_row_is_raised_as_what_its_constraint_means(
    connection: asyncpg.Connection, query: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await write(connection, COMMIT, query)
    with pytest.raises(kind):
        await in_transaction(connection, query)
