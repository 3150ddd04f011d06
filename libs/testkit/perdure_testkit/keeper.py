"""The process that holds a test session's servers: `python -m perdure_testkit.keeper DIRECTORY`."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from perdure_testkit.database import drop_database, make_template
from perdure_testkit.servers import Servers
from perdure_testkit.session import SessionFiles
from perdure_testkit.start import start_servers


async def keep(directory: Path) -> None:
    """Start the servers, say where they are, and stop them when the session's FIFO ends."""
    files = SessionFiles(directory)
    with files.keeper_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with AsyncExitStack() as stack:
            database_url, redis_url = await start_servers(directory, os.environ, stack)
            template = await make_template(database_url)
            stack.push_async_callback(drop_database, database_url, template)
            _publish(files, Servers(database_url, redis_url, template))
            await asyncio.to_thread(_wait_for_end, files.lifeline)
        shutil.rmtree(directory, ignore_errors=True)


def _publish(files: SessionFiles, servers: Servers) -> None:
    draft = files.servers.with_suffix(".new")
    draft.write_text(servers.to_json(), encoding="utf-8")
    draft.rename(files.servers)


def _wait_for_end(lifeline: Path) -> None:
    with lifeline.open("rb") as end:
        end.read()


if __name__ == "__main__":
    asyncio.run(keep(Path(sys.argv[1])))
