"""Jobs: how many a second from enqueue to result, and how soon one begins on an idle system."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from uuid import UUID

from perdure.client_jobs import NewJob

from tests.bench.figures import Figure, median_of, percentile
from tests.bench.rig import Rig, Size

TYPE = "bench.job"
PROBE = "bench.probe"
BATCH = 100
BATCHES_IN_FLIGHT = 4
PAUSE = (0.02, 0.12)
"""Seconds between two single jobs: any phase of what looks every 50 ms."""

_OUTPUTS = "SELECT run_id, output FROM steps WHERE run_id = ANY ($1::uuid[])"


async def measure_throughput(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure jobs a second through outbox, relay, Valkey, lease and report."""
    count, rounds = (600, 2) if size.quick else (8000, 7)
    await rig.client.jobs.put_type(TYPE, handler="bench.nothing")
    await jobs_per_second(rig, count // 4)
    found = [await jobs_per_second(rig, count) for _ in range(rounds)]
    return {"jobs_per_s": median_of(found)}


async def measure_start(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure the time from a client's call to the first line of its job's handler."""
    count = 40 if size.quick else 300
    await rig.client.jobs.put_type(PROBE, handler="bench.when")
    called = {}
    for _ in range(count + 1):
        await asyncio.sleep(random.uniform(*PAUSE))
        began = time.time()
        job_id = (await rig.client.jobs.enqueue(PROBE)).job_id
        called[UUID(job_id)] = began
    await rig.wait_ended(list(called))
    rows = await rig.database.fetch(_OUTPUTS, list(called)[1:])
    waited = [1000 * (json.loads(row["output"]) - called[row["run_id"]]) for row in rows]
    note = f"of {count} jobs"
    return {
        "enqueue_to_start_p50_ms": Figure(percentile(waited, 0.5), note),
        "enqueue_to_start_p99_ms": Figure(percentile(waited, 0.99), note),
    }


async def enqueue_batches(
    rig: Rig, kind: str, count: int, *, batch: int = BATCH, in_flight: int = BATCHES_IN_FLIGHT
) -> Sequence[UUID]:
    """Enqueue so many jobs of a type, `batch` a call, and return their ids."""
    gate = asyncio.Semaphore(in_flight)

    async def enqueue() -> list[UUID]:
        async with gate:
            results = await rig.client.jobs.enqueue_many([NewJob(type=kind)] * batch)
        return [UUID(result.job_id) for result in results]

    lists = await asyncio.gather(*(enqueue() for _ in range(count // batch)))
    return [job_id for ids in lists for job_id in ids]


async def jobs_per_second(rig: Rig, count: int) -> float:
    """Return the jobs a second from the first call to the last result."""
    return count / await rig.seconds_of(lambda: enqueue_batches(rig, TYPE, count))
