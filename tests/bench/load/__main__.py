"""`make bench-load`: what a step costs each process, the log and each table, and what waits.

Chains and jobs through the whole stack, then the statement of a chained step alone, from several
connections. Prints as it goes; there is no JSON, as the figures explain those of `make bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from tests.bench import chains, jobs
from tests.bench.load.counters import prepare
from tests.bench.load.measuring import Stretch, for_seconds, measured
from tests.bench.load.push import pushed
from tests.bench.load.report import brief, report
from tests.bench.rig import Rig, open_rig

SECONDS = 8.0
CHAIN = 20
"""Steps of a chain."""

PUSH = "push"

JOBS = 2000
"""Jobs of a round."""


async def _chains(rig: Rig) -> AsyncIterator[Stretch]:
    await chains.publish(rig, CHAIN)
    await chains.chained(rig, chains.WARM_UP, CHAIN)

    async def a_round() -> int:
        await chains.chained(rig, chains.AT_ONCE, CHAIN)
        return chains.AT_ONCE * CHAIN

    yield await measured(rig, "chains", lambda: for_seconds(SECONDS, a_round))


async def _jobs(rig: Rig) -> AsyncIterator[Stretch]:
    await rig.client.jobs.put_type(jobs.TYPE, handler="bench.nothing")
    await jobs.jobs_per_second(rig, JOBS // 4)

    async def a_round() -> int:
        await jobs.jobs_per_second(rig, JOBS)
        return JOBS

    yield await measured(rig, "jobs", lambda: for_seconds(SECONDS, a_round))


LOADS: Mapping[str, Callable[[Rig], AsyncIterator[Stretch]]] = {
    "chains": _chains,
    "jobs": _jobs,
    PUSH: pushed,
}
"""In this order: the last stops the services."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 2 for a wrong argument."""
    parser = argparse.ArgumentParser(prog="make bench-load", description=__doc__)
    parser.add_argument("--only", default=",".join(LOADS), help="loads, with commas between")
    only = parser.parse_args(arguments).only.split(",")
    if unknown := [name for name in only if name not in LOADS]:
        print(f"no such load: {', '.join(unknown)}; there are {', '.join(LOADS)}", file=sys.stderr)
        return 2
    asyncio.run(measure(only))
    return 0


async def measure(only: Sequence[str]) -> None:
    """Measure these loads on one stack and print each as it is known."""
    async with open_rig(preload="pg_stat_statements") as rig:
        await prepare(rig.database)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}", flush=True)
        for name in (name for name in LOADS if name in only):
            async for stretch in LOADS[name](rig):
                print(brief(stretch) if name == PUSH else report(stretch), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
