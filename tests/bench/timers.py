"""How many due timers are delivered a second, and how late a single one is on an idle system."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from uuid import UUID

from perdure_testkit.copies import copy_run

from tests.bench.figures import Figure, median_of, percentile
from tests.bench.rig import Rig, Size
from tests.bench.workflows import pause

NAME = "bench_pause"
FAR = 86_400.0  # seconds
AHEAD = 0.5
"""Seconds from the moment in which all timers are set to be due, to that in which they are."""
LONE_SECONDS = (0.1, 0.2)

_ALL_DUE = """
WITH due AS (SELECT clock_timestamp() + make_interval(secs => $1) AS at),
moved AS (
    UPDATE timers SET due_at = due.at, next_try = due.at FROM due
     WHERE run_id IN (SELECT run_id FROM runs WHERE workflow = $2 AND status = 'running')
    RETURNING run_id
)
SELECT (SELECT at FROM due) AS at, array_agg(run_id) AS runs FROM moved
"""
_TOOK = """
SELECT extract(epoch FROM max(ended_at) - $2)::float8 FROM runs WHERE run_id = ANY ($1::uuid[])
"""
_DUE = "SELECT due_at FROM timers WHERE run_id = $1"
_LATE = """
SELECT 1000 * extract(epoch FROM ended_at - $2)::float8 FROM steps WHERE run_id = $1
"""


async def measure(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Measure both."""
    await rig.client.publish_workflow(pause(NAME))
    return {**await _lateness(rig, size), **await _drained(rig, size)}


async def _drained(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Have many timers due at one moment; each ends a run."""
    count = 1500 if size.quick else 20_000
    rounds = [await _drain(rig, count) for _ in range(1 if size.quick else 5)]
    return {"timers_per_s": median_of(rounds)}


async def _drain(rig: Rig, count: int) -> float:
    run_id = UUID((await rig.client.start_run(NAME, {"seconds": FAR})).run_id)
    await copy_run(rig.place, run_id, count - 1)
    (row,) = await rig.database.fetch(_ALL_DUE, AHEAD, NAME)
    await rig.wait_ended(row["runs"])
    return count / float(await rig.database.fetchval(_TOOK, row["runs"], row["at"]))


async def _lateness(rig: Rig, size: Size) -> Mapping[str, Figure]:
    """Set one timer after another; late is what passes from its due time to the end of its step."""
    count = 20 if size.quick else 200
    late = []
    for _ in range(count):
        seconds = random.uniform(*LONE_SECONDS)
        run_id = UUID((await rig.client.start_run(NAME, {"seconds": seconds})).run_id)
        due_at = await rig.database.fetchval(_DUE, run_id)
        await asyncio.sleep(seconds)
        await rig.wait_ended([run_id], every=0.1)
        late.append(float(await rig.database.fetchval(_LATE, run_id, due_at)))
    return {"timer_lateness_p99_ms": Figure(percentile(late, 0.99), f"of {count} timers")}
