"""`make bench`: steps per second on the embedded stack, chained and dispatched, with fsync on.

Chained: runs of 20 steps in a row, 256 at once; after the first step of a run each next one comes
with the report of the one before. Dispatched: runs of one step, each through outbox, relay, Valkey
and lease. Medians of three rounds; the last line is JSON.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import perdure
from perdure_stack.stack import DevStack
from perdure_testkit.waiting import eventually

ROOT = Path(__file__).parents[2]
CHAIN_STEPS = 20
CHAINS = 256
JOBS = 2000
ROUNDS = 3
STARTS_IN_FLIGHT = 64
WITHIN = 120.0  # seconds
RUNNING = perdure.RunStatus.RUN_STATUS_RUNNING
WORKER = {
    "PERDURE_WORKER_HANDLERS": "tests.bench.handlers",
    "PERDURE_WORKER_SLOTS": "256",
    "PYTHONPATH": str(ROOT),
}
INGEST = {"PERDURE_INGEST_KEY_RATE": "100000", "PERDURE_INGEST_KEY_BURST": "100000"}
"""One key starts all runs, faster than a caller usually may."""


def chain(steps: int) -> bytes:
    """Return a definition of `steps` tasks in a row."""
    nodes = {
        f"n{i}": {
            "needs": [f"n{i - 1}"] if i else [],
            "task": {"handler": "bench.nothing", "input": {"i": i}},
        }
        for i in range(steps)
    }
    return json.dumps({"name": f"chain_{steps}", "nodes": nodes}).encode()


async def none_runs(client: perdure.Client) -> bool:
    """Tell whether every run has ended."""
    async for _ in client.list_runs(status=RUNNING, page_size=1):
        return False
    return True


async def steps_per_second(client: perdure.Client, steps: int, runs: int) -> float:
    """Start `runs` chains at once and return steps per second until the last has ended."""
    began = time.perf_counter()
    in_flight = asyncio.Semaphore(STARTS_IN_FLIGHT)

    async def start() -> None:
        async with in_flight:
            await client.start_run(f"chain_{steps}", {})

    await asyncio.gather(*(start() for _ in range(runs)))
    await eventually(lambda: none_runs(client), within=WITHIN, what="every run has ended")
    return steps * runs / (time.perf_counter() - began)


def stack_client(stack: DevStack) -> perdure.Client:
    """Return a client of a stack that runs."""
    return perdure.Client(stack.ports.address("ingest"), api_key=stack.api_key)


async def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as directory:
        stack = DevStack(
            Path(directory),
            free_ports=True,
            service_env={"worker": WORKER, "ingest": INGEST},
            restart=False,
        )
        async with stack, stack_client(stack) as client:
            figures = {}
            for name, steps, runs in (
                ("chained_steps_per_s", CHAIN_STEPS, CHAINS),
                ("dispatched_steps_per_s", 1, JOBS),
            ):
                await client.publish_workflow(chain(steps))
                await steps_per_second(client, steps, runs // 8)  # warms caches and connections
                rounds = [await steps_per_second(client, steps, runs) for _ in range(ROUNDS)]
                figures[name] = round(statistics.median(rounds), 1)
                print(f"{name:24} {figures[name]:10.1f}   of {[round(r, 1) for r in rounds]}")
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main())
