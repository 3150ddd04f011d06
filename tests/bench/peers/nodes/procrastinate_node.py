"""Procrastinate: jobs in PostgreSQL, an asynchronous worker that is woken by LISTEN."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import procrastinate

from tests.bench.peers.nodes.protocol import Given, serve, until

BATCH = 100
HAS_SCHEMA = "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS there"
OPEN = """
SELECT count(*) AS rows FROM procrastinate_jobs
 WHERE queue_name = %(queue)s AND status IN ('todo', 'doing')
"""


async def nothing() -> None:
    """Do nothing."""


class ProcrastinateNode:
    """One worker and its queue."""

    def __init__(self, app: procrastinate.App, task: procrastinate.tasks.Task, queue: str) -> None:
        self._app = app
        self._task = task
        self._queue = queue

    async def alone(self, steps: int) -> Sequence[float]:
        raise NotImplementedError("it has no workflows")

    async def chains(self, runs: int, steps: int) -> None:
        raise NotImplementedError("it has no workflows")

    async def jobs(self, count: int) -> None:
        for _ in range(count // BATCH):
            await self._task.configure(queue=self._queue).batch_defer_async(*[{}] * BATCH)
        await until(self._none_open)

    async def _none_open(self) -> bool:
        row = await self._app.connector.execute_query_one_async(OPEN, queue=self._queue)
        return row["rows"] == 0


@asynccontextmanager
async def open_node(given: Given) -> AsyncIterator[ProcrastinateNode]:
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    queue = f"bench_{os.getpid()}"
    connector = procrastinate.PsycopgConnector(
        conninfo=given.database_url, max_size=given.concurrency + 4
    )
    app = procrastinate.App(connector=connector)
    task = app.task(nothing, name="nothing")
    async with app.open_async():
        if not (await connector.execute_query_one_async(HAS_SCHEMA))["there"]:
            await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(
            app.run_worker_async(
                queues=[queue], concurrency=given.concurrency, install_signal_handlers=False
            )
        )
        try:
            yield ProcrastinateNode(app, task, queue)
        finally:
            worker.cancel()
            await asyncio.wait([worker])


if __name__ == "__main__":
    serve(open_node)
