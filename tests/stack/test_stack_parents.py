import asyncio
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio as redis
from perdure_stack.account import server_account
from perdure_stack.postgres import EmbeddedPostgres
from perdure_stack.process import KERNEL_TIES_CHILDREN, ChildProcess
from perdure_stack.valkey import EmbeddedValkey

SERVERS = """
    import asyncio, sys
    from pathlib import Path
    import asyncpg
    from perdure_stack.postgres import EmbeddedPostgres
    from perdure_stack.valkey import EmbeddedValkey

    async def main(place):
        postgres, valkey = EmbeddedPostgres(place / "p", durable=False), EmbeddedValkey(place / "v")
        await postgres.start()
        await valkey.start()
        connection = await asyncpg.connect(postgres.dsn())
        await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        print(postgres.port, valkey.port, flush=True)
        if sys.argv[2] == "wait":
            await asyncio.Event().wait()
        await connection.close()
        await postgres.stop()
        await valkey.stop()

    asyncio.run(main(Path(sys.argv[1])))
"""

TIED = """
    import signal, sys
    from pathlib import Path
    from perdure_stack.process import ChildProcess

    log, lifeline, *command = sys.argv[1:]
    ChildProcess(command, log=Path(log), lifeline=lifeline == "lifeline").start()
    signal.pause()
"""

# Connects and stays; the alarm ends it even where what is tested does not.
LIVES = """
    import signal, socket, sys
    signal.alarm(60)
    line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    line.sendall(b"up\\n")
    signal.pause()
"""

TIES = ["kernel", "lifeline"] if KERNEL_TIES_CHILDREN else ["lifeline"]


async def run_script(
    script: str, *arguments: str, before: Sequence[str] = ()
) -> asyncio.subprocess.Process:
    program = [*before, sys.executable, "-c", textwrap.dedent(script), *arguments]
    return await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)


async def first_line(process: asyncio.subprocess.Process) -> list[str]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    return line.decode().split()


async def test_servers_end_when_their_parent_is_killed_and_lose_nothing(place: Path) -> None:
    parent = await run_script(SERVERS, str(place), "wait")
    ports = [int(port) for port in await first_line(parent)]
    _, postgres_writer = await asyncio.open_connection("127.0.0.1", ports[0])
    valkey_reader, valkey_writer = await asyncio.open_connection("127.0.0.1", ports[1])

    parent.kill()
    await parent.wait()

    assert await asyncio.wait_for(valkey_reader.read(), 10) == b""
    for writer in (postgres_writer, valkey_writer):
        writer.close()
    # A start waits until the data is nobody's, and needs the port for itself.
    postgres = EmbeddedPostgres(place / "p", port=ports[0])
    valkey = EmbeddedValkey(place / "v", port=ports[1])
    await postgres.start()
    await valkey.start()
    connection = await asyncpg.connect(postgres.dsn())
    assert await connection.fetchval("SELECT answer FROM kept") == 42
    await connection.close()
    async with redis.Redis.from_url(valkey.url) as client:
        assert await client.ping()
    await postgres.destroy()
    await valkey.destroy()


class Line:
    """Hears that a program lives and, as the end of its connection, that it does no more."""

    def __init__(self) -> None:
        self._reader: asyncio.Future[asyncio.StreamReader] = asyncio.Future()

    async def open(self) -> list[str]:
        """Return the command of a program that connects to this line."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return [sys.executable, "-c", textwrap.dedent(LIVES), str(port)]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._reader.set_result(reader)

    async def up(self) -> None:
        reader = await asyncio.wait_for(self._reader, 10)
        assert await reader.readline() == b"up\n"

    async def down(self) -> None:
        assert await asyncio.wait_for(self._reader.result().read(), 10) == b""
        self._writer.close()
        self._server.close()


@pytest.mark.parametrize("tie", TIES)
async def test_a_child_ends_when_its_parent_is_killed(tie: str, place: Path) -> None:
    line = Line()
    parent = await run_script(TIED, str(place / "log"), tie, *await line.open())
    await line.up()
    parent.kill()
    await parent.wait()
    await line.down()


@pytest.mark.parametrize("tie", TIES)
async def test_a_child_outlives_the_thread_that_asked_for_it(tie: str, place: Path) -> None:
    line = Line()
    child = ChildProcess(
        await line.open(),
        log=place / "log",
        orphan_signal=signal.SIGKILL,
        lifeline=tie == "lifeline",
    )
    tied = threading.Event()

    def start_and_end_once_tied() -> None:
        child.start()
        tied.wait(10)

    starter = threading.Thread(target=start_and_end_once_tied)
    starter.start()
    await line.up()
    tied.set()
    starter.join()
    assert await child.end([(signal.SIGTERM, 10.0)]) == -signal.SIGTERM
    await line.down()


async def test_an_ordinary_user_runs_both_servers(place: Path) -> None:
    home = place / "home"
    home.mkdir()
    before: list[str] = []
    if (account := server_account()) is not None:
        os.chown(home, account.uid, account.gid)
        # It may read this Python wherever that is installed, and write nothing beyond its own.
        before = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
        before += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--"]
    process = await run_script(SERVERS, str(home), "stop", before=before)
    assert len(await first_line(process)) == 2
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert (home / "p" / "data" / "PG_VERSION").stat().st_uid == home.stat().st_uid


async def test_a_program_that_is_not_there_ends_with_127_and_says_so(place: Path) -> None:
    child = ChildProcess([str(place / "nothing")], log=place / "log")
    child.start()
    assert await child.wait(10) == 127
    assert "cannot run" in child.log_tail()[0]
