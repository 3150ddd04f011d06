"""Starts a second through ingest, one a call and 20 a call, while no worker takes the work."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from tests.bench.figures import Figure, median_of
from tests.bench.jobs import TYPE, enqueue_batches
from tests.bench.rig import Rig, Size
from tests.bench.workflows import chain

NAME = "bench_one"
BATCH = 20
BATCHES_IN_FLIGHT = 32
WORKER = "worker"


async def measure(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure both, each round of starts run to its end by the worker after it."""
    one, many, rounds = (200, 600, 1) if size.quick else (3000, 10_000, 5)
    await rig.client.publish_workflow(chain(NAME, 1))
    await rig.client.jobs.put_type(TYPE, handler="bench.nothing")
    await _starts_per_second(rig, lambda: rig.start_many(NAME, one // 4))
    singles, batches = [], []
    for _ in range(rounds):
        singles.append(await _starts_per_second(rig, lambda: rig.start_many(NAME, one)))
        batches.append(await _starts_per_second(rig, lambda: _batches(rig, many)))
    return {
        "start_runs_per_s": median_of(singles),
        "start_runs_batch20_per_s": median_of(batches),
    }


async def _batches(rig: Rig, count: int) -> Sequence[UUID]:
    """Start runs of a single node by the call that takes many: jobs."""
    return await enqueue_batches(rig, TYPE, count, batch=BATCH, in_flight=BATCHES_IN_FLIGHT)


async def _starts_per_second(rig: Rig, start: Callable[[], Awaitable[Sequence[UUID]]]) -> float:
    await rig.stack.supervisor.stop(WORKER)
    began = time.perf_counter()
    runs = await start()
    took = time.perf_counter() - began
    await rig.stack.supervisor.start(WORKER)
    await rig.wait_ended(runs)
    return len(runs) / took
