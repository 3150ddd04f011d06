"""Absurd: functions of its schema store the steps of a task; a worker claims tasks in batches."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd

from tests.bench.peers.nodes.protocol import Given, limited, serve, until

SCHEMA = "absurd.sql"
POLL_SECONDS = 0.02
SPAWNERS = 8
EXTENSION = 'create extension if not exists "uuid-ossp";'
HAS_SCHEMA = "SELECT to_regnamespace('absurd') IS NOT NULL"


class AbsurdNode:
    """One asynchronous worker with a connection of its own, and its queue."""

    def __init__(self, given: Given, client: AsyncAbsurd, database: Any, queue: str) -> None:
        self._client = client
        self._database = database
        self._open = f"""
            SELECT count(*) FROM absurd.t_{queue} WHERE state IN ('pending', 'running', 'sleeping')
        """

    async def alone(self, steps: int) -> Sequence[float]:
        task = await self._client.spawn("chain", {"steps": steps})
        found = await self._client.await_task_result(task["task_id"])
        return found.result

    async def chains(self, runs: int, steps: int) -> None:
        await limited(runs, SPAWNERS, lambda: self._client.spawn("chain", {"steps": steps}))
        await until(self._none_open)

    async def jobs(self, count: int) -> None:
        await limited(count, SPAWNERS, lambda: self._client.spawn("job", {}))
        await until(self._none_open)

    async def _none_open(self) -> bool:
        row = await (await self._database.execute(self._open)).fetchone()
        return row[0] == 0


def register(client: AsyncAbsurd) -> None:
    """Register both tasks."""

    async def nothing() -> None:
        return None

    @client.register_task("chain")
    async def chain(params: Any, ctx: Any) -> list[float]:
        ends = []
        for number in range(params["steps"]):
            await ctx.step(f"s{number}", nothing)
            ends.append(time.perf_counter())
        return ends

    @client.register_task("job")
    async def job(_params: Any, _ctx: Any) -> None:
        return None


async def make_schema(given: Given, database: Any) -> None:
    """Apply the schema's file, and absurdctl's migrations from it to the SDK's version."""
    if (await (await database.execute(HAS_SCHEMA)).fetchone())[0]:
        return
    file = Path(given.files) / SCHEMA
    if not file.exists():
        raise FileNotFoundError(f"its schema, which no package has, is not at {file}")
    await database.execute(_without_extension(file.read_text(encoding="utf-8")))
    row = await (await database.execute("SELECT absurd.get_schema_version()")).fetchone()
    await database.execute(_without_extension(await asyncio.to_thread(migrations_from, row[0])))


def migrations_from(version: str) -> str:
    """Return what brings the schema from a release to the SDK's."""
    ctl = Path(sys.executable).with_name("absurdctl")
    command = [ctl, "migrate", "--from", version, "--dump-sql"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _without_extension(schema: str) -> str:
    """PostgreSQL 18 makes such ids by itself; only on older ones the schema uses the extension."""
    return schema.replace(EXTENSION, "")


@asynccontextmanager
async def open_node(given: Given) -> AsyncIterator[AbsurdNode]:
    database = await psycopg.AsyncConnection.connect(given.database_url, autocommit=True)
    await make_schema(given, database)
    queue = f"bench_{os.getpid()}"
    client = AsyncAbsurd(given.database_url, queue_name=queue)
    worker = AsyncAbsurd(given.database_url, queue_name=queue)
    await client.create_queue(queue)
    for each in (client, worker):
        register(each)
    working = asyncio.create_task(
        worker.start_worker(concurrency=given.concurrency, poll_interval=POLL_SECONDS)
    )
    try:
        yield AbsurdNode(given, client, database, queue)
    finally:
        working.cancel()
        await asyncio.wait([working])
        await asyncio.gather(worker.close(), client.close(), database.close())


if __name__ == "__main__":
    serve(open_node)
