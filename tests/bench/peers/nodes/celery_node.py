"""Celery: jobs in Valkey, results too; the worker is a process of its own, as its guide has it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from celery import Celery, group

from tests.bench.peers.nodes.protocol import Given, serve, until

MODULE = "tests.bench.peers.nodes.celery_node"
URL = "BENCH_CELERY_URL"

app = Celery("bench", broker=os.environ.get(URL, ""), backend=os.environ.get(URL, ""))
app.conf.update(
    task_acks_late=True,
    result_expires=600,
    task_serializer="json",
    broker_connection_retry_on_startup=True,
)


@app.task(name="bench.nothing")
def nothing() -> None:
    """Do nothing."""


class CeleryNode:
    """A client; the worker runs beside it."""

    async def alone(self, steps: int) -> Sequence[float]:
        raise NotImplementedError("it keeps no state of a workflow")

    async def chains(self, runs: int, steps: int) -> None:
        raise NotImplementedError("it keeps no state of a workflow")

    async def jobs(self, count: int) -> None:
        await asyncio.to_thread(_call_and_wait, count)


def _call_and_wait(count: int) -> None:
    called = group(nothing.s() for _ in range(count)).apply_async()
    called.join(timeout=300)
    called.forget()


async def _answers() -> bool:
    return bool(await asyncio.to_thread(app.control.ping, timeout=0.5))


def _start_worker(given: Given) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "celery", "-A", MODULE, "worker", "--loglevel", "WARNING"]
    command += ["--pool", given.pool, "--concurrency", str(given.concurrency)]
    command += ["--without-gossip", "--without-mingle"]
    environment = {**os.environ, URL: given.redis_url}
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)


@asynccontextmanager
async def open_node(given: Given) -> AsyncIterator[CeleryNode]:
    app.conf.update(broker_url=given.redis_url, result_backend=given.redis_url)
    worker = _start_worker(given)
    try:
        await until(_answers, within=60)
        yield CeleryNode()
    finally:
        worker.terminate()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(worker.wait, 20)
        worker.kill()


if __name__ == "__main__":
    serve(open_node)
