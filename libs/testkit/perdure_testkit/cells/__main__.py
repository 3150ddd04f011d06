"""`python -m perdure_testkit.cells`: a table of the cells that a growing load needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from perdure_testkit.cells.cell import CellSize
from perdure_testkit.cells.growth import AWAY, Growth, Stage, grow

STEP_MS = 2.0
COLUMNS = (
    "steps/s", "orgs", "cells", "at least", "largest", "split", "moved", "of load",
    "busiest", "full", "step ms", "behind s", "orgs out", "after s",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m perdure_testkit.cells", description=__doc__)
    parser.add_argument("capacity", type=float, help="steps a second that one cell carries")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law; 0 is even")
    parser.add_argument("--stages", type=int, default=7)
    options = parser.parse_args(arguments)
    growth = Growth(seed=options.seed, exponent=options.exponent, stages=options.stages)
    print(table(grow(CellSize(options.capacity, STEP_MS), growth)))
    return 0


def table(stages: Iterable[Stage]) -> str:
    """Return one line a stage, and what the columns are."""
    rows = [COLUMNS, *map(_row, stages)]
    lines = ["".join(f"{cell:>{10}}" for cell in row) for row in rows]
    return "\n".join([*lines, LEGEND])


def _row(stage: Stage) -> tuple[str, ...]:
    return (
        f"{stage.steps_per_s:,.0f}", f"{stage.orgs:,}", f"{stage.cells}",
        f"{stage.cells_at_least}", f"{stage.largest_org:.1%}", f"{stage.split_orgs}",
        f"{stage.moved_units}", f"{stage.moved_share:.1%}", f"{stage.busiest_share:.2%}",
        f"{stage.busiest_fill:.0%}", f"{stage.busiest_step_ms:.2f}",
        f"{stage.longest_backlog_s:.0f}", f"{stage.failed_orgs}", f"{stage.catching_up_s:.0f}",
    )  # fmt: skip


LEGEND = f"""
at least: cells if the load could be divided at will; largest: the largest org's share; split: orgs
spread over cells by slots; moved, of load: units moved since the stage before, and their share;
busiest, full: the busiest cell's share of the whole and of its capacity; step ms: there; behind s:
the longest that work waited anywhere in half an hour with bursts; orgs out, after s: orgs without
a cell if the one with most fails for {AWAY:.0f} s, and how long the busiest would catch up then"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
