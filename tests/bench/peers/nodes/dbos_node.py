"""DBOS: workflows and steps as a library in this process; jobs are workflows of its queue."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psycopg
from dbos import DBOS, DBOSConfig

from tests.bench.peers.nodes.protocol import Given, limited, serve, until

POLL_SECONDS = 0.1
OPEN = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('PENDING', 'ENQUEUED')"


@DBOS.step()
async def nothing(_number: int) -> None:
    """Do nothing."""


@DBOS.workflow()
async def chain(steps: int) -> list[float]:
    """Do steps in a row; return when each had ended."""
    ends = []
    for number in range(steps):
        await nothing(number)
        ends.append(time.perf_counter())
    return ends


@DBOS.workflow()
async def job(_number: int) -> None:
    """Do nothing."""


class DbosNode:
    """One executor."""

    def __init__(self, given: Given, database: psycopg.AsyncConnection, queue: str) -> None:
        self._at_once = given.concurrency
        self._database = database
        self._queue = queue

    async def alone(self, steps: int) -> Sequence[float]:
        handle = await DBOS.start_workflow_async(chain, steps)
        return await handle.get_result()

    async def chains(self, runs: int, steps: int) -> None:
        async def one() -> None:
            await (await DBOS.start_workflow_async(chain, steps)).get_result()

        await limited(runs, self._at_once, one)

    async def jobs(self, count: int) -> None:
        async def enqueue() -> None:
            await DBOS.enqueue_workflow_async(self._queue, job, 0)

        await limited(count, self._at_once, enqueue)
        await until(self._none_open)

    async def _none_open(self) -> bool:
        row = await (await self._database.execute(OPEN)).fetchone()
        return row is not None and row[0] == 0


@asynccontextmanager
async def open_node(given: Given) -> AsyncIterator[DbosNode]:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": given.database_url,
        "sys_db_pool_size": 20,
        "executor_id": str(os.getpid()),
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    queue = "bench"
    await DBOS.register_queue_async(
        queue, worker_concurrency=given.concurrency, polling_interval_sec=POLL_SECONDS
    )
    database = await psycopg.AsyncConnection.connect(given.database_url, autocommit=True)
    try:
        yield DbosNode(given, database, queue)
    finally:
        await database.close()
        DBOS.destroy()


if __name__ == "__main__":
    serve(open_node)
