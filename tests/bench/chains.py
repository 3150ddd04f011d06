"""Steps in a row: of one run alone, beside bare commits of the same minutes; and of 256 at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from uuid import UUID

import asyncpg

from tests.bench.figures import Figure, median_of
from tests.bench.rig import Rig, Size
from tests.bench.workflows import chain

STEPS = 50
BRIEF_STEPS = 10
ALONE_PER_ROUND = 4
ALONE_LOOK_EVERY = 0.1  # seconds
COMMITS_PER_ROUND = 300
AT_ONCE = 256
WARM_UP = 32
NAME = "bench_chain"

_STEP_TIMES = """
SELECT 1000 * extract(epoch FROM ended_at - lag(ended_at) OVER (ORDER BY step))::float8 AS took
  FROM steps WHERE run_id = $1 ORDER BY step OFFSET 1
"""
_COMMIT = "UPDATE bench_commits SET n = n + 1 WHERE id = 1"
_COMMIT_TABLE = """
CREATE TABLE bench_commits (id integer PRIMARY KEY, n bigint NOT NULL);
INSERT INTO bench_commits VALUES (1, 0);
"""


async def measure_alone(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure one run's step, and interleaved with it a bare commit on the machine that idles."""
    await publish(rig)
    await rig.database.execute(_COMMIT_TABLE)
    await step_p50(rig)
    steps, commits = [], []
    for _ in range(size.rounds()):
        steps.append(await step_p50(rig))
        commits.append(await _commit_p50(rig.database))
    return {"chain_step_p50_ms": median_of(steps), "commit_p50_ms": median_of(commits)}


async def measure_at_once(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure the steps a second of 256 runs that are started at once."""
    steps, rounds = (BRIEF_STEPS, 2) if size.quick else (STEPS, 7)
    await publish(rig, steps)
    await chained(rig, WARM_UP, steps)
    found = [await chained(rig, AT_ONCE, steps) for _ in range(rounds)]
    return {"chain_steps_per_s": median_of(found)}


async def publish(rig: Rig, steps: int = STEPS) -> None:
    """Publish the chain."""
    await rig.client.publish_workflow(chain(_name(steps), steps))


async def chained(rig: Rig, runs: int, steps: int = STEPS) -> float:
    """Return the steps a second of so many chains, from the first start to the last end."""
    seconds = await rig.seconds_of(lambda: rig.start_many(_name(steps), runs, in_flight=runs))
    return runs * steps / seconds


def _name(steps: int) -> str:
    return f"{NAME}_{steps}"


async def step_p50(rig: Rig, runs: int = ALONE_PER_ROUND) -> float:
    """Return the median of the milliseconds from one step's end to the next one's."""
    took: list[float] = []
    for _ in range(runs):
        run_id = UUID((await rig.client.start_run(_name(STEPS))).run_id)
        await rig.wait_ended([run_id], every=ALONE_LOOK_EVERY)
        took += [row["took"] for row in await rig.database.fetch(_STEP_TIMES, run_id)]
    return statistics.median(took)


async def _commit_p50(database: asyncpg.Connection) -> float:
    """Return the median of the milliseconds of an UPDATE of one row that commits by itself."""
    update = await database.prepare(_COMMIT)
    took = []
    for _ in range(COMMITS_PER_ROUND):
        began = time.perf_counter()
        await update.fetch()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)
