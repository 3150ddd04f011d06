"""Plays many seeds: `python -m perdure_testkit.simulation --seeds 1000 --from 0 --jobs 2`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from functools import partial
from multiprocessing import Pool

from perdure_testkit.simulation.bugs import BUGS
from perdure_testkit.simulation.case import case_of
from perdure_testkit.simulation.shrinking import shrink
from perdure_testkit.simulation.store import Bug
from perdure_testkit.simulation.telling import report
from perdure_testkit.simulation.world import Outcome, simulate

_CHUNK = 20
_BUGS: dict[str, type[Bug]] = {bug.__name__: bug for bug in BUGS}


def play(seed: int, bug: str) -> tuple[int, Outcome]:
    """Play the case of a seed, with a planted bug or with none."""
    return seed, simulate(case_of(seed), _BUGS.get(bug, Bug)())


def main() -> int:
    """Play the seeds; tell of the first that breaks a law, and return 1."""
    asked = _arguments()
    seeds = range(asked.first, asked.first + asked.seeds)
    began, ends, faults, lines = time.monotonic(), Counter[str](), Counter[str](), 0
    with Pool(asked.jobs) as pool:
        played = pool.imap_unordered(partial(play, bug=asked.bug), seeds, chunksize=_CHUNK)
        for seed, outcome in played:
            if outcome.violation is not None:
                pool.terminate()
                _tell(seed, outcome, asked.bug)
                return 1
            ends.update(str(status) for status in outcome.ends)
            faults.update(one.fault.name for one in outcome.struck)
            lines += outcome.events
    print(
        f"{asked.seeds} seeds from {asked.first}, {time.monotonic() - began:.1f} s, all laws held"
    )
    print(f"runs: {_counted(ends)}; {lines} lines of trace")
    print(f"faults: {_counted(faults)}")
    return 0


def _tell(seed: int, outcome: Outcome, bug: str) -> None:
    print(f"seed {seed} breaks a law: {outcome.violation}\nshrinking ...\n", flush=True)
    print(
        report(*shrink(case_of(seed), outcome, lambda case: simulate(case, _BUGS.get(bug, Bug)())))
    )


def _counted(numbers: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in numbers.most_common()) or "none"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--bug", default="", choices=["", *_BUGS], help="a bug to plant")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
