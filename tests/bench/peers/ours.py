"""Perdure's own turn in a comparison: the workloads of `make bench` on the same stack."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench import chains, jobs
from tests.bench.peers.results import Round
from tests.bench.peers.turns import ALONE_RUNS, CHAIN_STEPS, Turn
from tests.bench.rig import Rig

JOBS_WARM_UP = 500
FEWEST_JOBS = 1000


@dataclass(slots=True)
class Ours:
    """A rig whose services run only in their turn."""

    rig: Rig
    turn: Turn
    jobs: int = FEWEST_JOBS

    async def prepare(self) -> None:
        """Publish what is run, and find out how many jobs fill a turn."""
        for steps in (chains.STEPS, CHAIN_STEPS):
            await chains.publish(self.rig, steps)
        await self.rig.client.jobs.put_type(jobs.TYPE, handler="bench.nothing")
        await jobs.jobs_per_second(self.rig, JOBS_WARM_UP)
        rate = await jobs.jobs_per_second(self.rig, JOBS_WARM_UP)
        self.jobs = max(FEWEST_JOBS, self.turn.amount(rate, jobs.BATCH))
        await self.rig.stop_services()

    async def take_turn(self) -> Round:
        """Measure with the services started for it."""
        rig = self.rig
        await rig.start_services()
        await chains.chained(rig, chains.WARM_UP, CHAIN_STEPS)
        alone = await chains.step_p50(rig, runs=ALONE_RUNS)
        seen = {
            "chain_steps_per_s": await chains.chained(rig, chains.AT_ONCE * 2, CHAIN_STEPS),
            "chain_step_p50_ms": alone,
            "jobs_per_s": await jobs.jobs_per_second(rig, self.jobs),
        }
        await rig.stop_services()
        print(f"  perdure {seen}", flush=True)
        return seen
