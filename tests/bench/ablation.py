"""`make bench-ablation`: what each technique of the hot path is worth (design P1, P3, P4, P5, P7).

Each round takes its turn with every technique switched off, and with none; ratios are of medians
against the whole. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from perdure_testkit.techniques import TECHNIQUES

from tests.bench import chains, jobs
from tests.bench.figures import short
from tests.bench.rig import Rig, open_rig

WHOLE = "all on"
SWITCHES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {WHOLE: {}} | {technique.name: technique.variables for technique in TECHNIQUES}
)
"""What is switched off, and how."""

STEPS = 20
RUNS = 256
JOBS = 2000
ROUNDS = 5
QUICK_ROUNDS = 1

Rounds = dict[str, dict[str, list[float]]]
"""Figures of all rounds, by what was switched off and by measure."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-ablation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round")
    options = parser.parse_args(arguments)
    found = asyncio.run(measure(QUICK_ROUNDS if options.quick else ROUNDS))
    for name, measures in ratios(found).items():
        parts = (f"{measure} {value:g}" for measure, value in measures.items())
        print(f"{name:24} {'   '.join(parts)}")
    print(json.dumps(ratios(found)))
    return 0


def ratios(found: Rounds) -> Mapping[str, Mapping[str, float]]:
    """Return the medians of the whole, and of what has something off the ratios to them."""
    whole = {key: statistics.median(rounds) for key, rounds in found[WHOLE].items()}
    told: dict[str, Mapping[str, float]] = {
        WHOLE: {key: short(value) for key, value in whole.items()}
    }
    for name, measures in found.items():
        if name != WHOLE:
            told[name] = {
                key: short(statistics.median(rounds) / whole[key])
                for key, rounds in measures.items()
            }
    return told


async def measure(rounds: int) -> Rounds:
    """Measure every switch in every round, on the same servers."""
    found: Rounds = defaultdict(lambda: defaultdict(list))
    async with open_rig() as rig:
        await chains.publish(rig)
        await chains.publish(rig, STEPS)
        await rig.client.jobs.put_type(jobs.TYPE, handler="bench.nothing")
        for number in range(1, rounds + 1):
            for name, off in SWITCHES.items():
                await rig.stop_services()
                await rig.start_services(off)
                figures = await _take(rig)
                for key, value in figures.items():
                    found[name][key].append(value)
                parts = "   ".join(f"{key} {short(value):g}" for key, value in figures.items())
                print(f"round {number}  {name:24} {parts}", flush=True)
    return found


async def _take(rig: Rig) -> Mapping[str, float]:
    await chains.chained(rig, chains.WARM_UP, STEPS)
    await jobs.jobs_per_second(rig, jobs.BATCH)
    return {
        "chain_steps_per_s": await chains.chained(rig, RUNS, STEPS),
        "chain_step_p50_ms": await chains.step_p50(rig),
        "jobs_per_s": await jobs.jobs_per_second(rig, JOBS),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
