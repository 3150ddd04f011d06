"""A load that grows to a million steps a second, and the cells that carry it, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perdure_testkit.cells.cell import CellSize, catching_up, longest_backlog, step_ms
from perdure_testkit.cells.load import Org, bursts, skewed
from perdure_testkit.cells.routes import Routes, cells_at_least

TARGET = 1_000_000.0
MINUTES = 30
"""Over which bursts are looked at in each stage."""

AWAY = 300.0
"""Seconds that a cell is away when it fails."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What grows: steps a second from `first` to TARGET in `stages` stages, orgs with them."""

    seed: int = 1
    first: float = 1000.0
    stages: int = 13
    exponent: float = 1.0
    steps_per_org: float = 100.0
    """Steps a second of the average org."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage came to; shares are of the whole load, fills of a cell's capacity."""

    steps_per_s: float
    orgs: int
    cells: int
    cells_at_least: int
    largest_org: float
    split_orgs: int
    moved_units: int
    moved_share: float
    busiest_share: float
    busiest_fill: float
    busiest_step_ms: float
    longest_backlog_s: float
    failed_orgs: int
    catching_up_s: float


def grow(size: CellSize, growth: Growth) -> Iterator[Stage]:
    """Play the stages, each with the cells of the one before."""
    routes = Routes(size)
    for number in range(growth.stages):
        whole = growth.first * (TARGET / growth.first) ** (number / max(1, growth.stages - 1))
        count = max(10, math.ceil(whole / growth.steps_per_org))
        orgs = skewed(growth.seed, count, whole, growth.exponent, number)
        routes.update(orgs)
        moved = routes.rebalance()
        yield _stage(routes, orgs, growth, len(moved), math.fsum(moved.values()))


def _stage(
    routes: Routes, orgs: Sequence[Org], growth: Growth, moved_units: int, moved: float
) -> Stage:
    size, whole = routes.size, math.fsum(routes.loads)
    busiest = max(routes.loads)
    fill = busiest / size.steps_per_s
    return Stage(
        steps_per_s=whole,
        orgs=len(orgs),
        cells=len(routes.loads),
        cells_at_least=cells_at_least(size, whole),
        largest_org=max(org.steps_per_s for org in orgs) / whole,
        split_orgs=routes.split_orgs(),
        moved_units=moved_units,
        moved_share=moved / whole,
        busiest_share=busiest / whole,
        busiest_fill=fill,
        busiest_step_ms=step_ms(size, fill),
        longest_backlog_s=_longest_backlog(routes, growth.seed),
        failed_orgs=_most_orgs(routes),
        catching_up_s=catching_up(AWAY, fill),
    )


def _longest_backlog(routes: Routes, seed: int) -> float:
    """Return the most seconds that any cell lay behind under the bursts of its orgs."""
    asked = [[0.0] * MINUTES for _ in routes.loads]
    multiples = {org: bursts(seed, org, MINUTES) for org in {unit.org for unit in routes.cell_of}}
    for unit, cell in routes.cell_of.items():
        for minute, multiple in enumerate(multiples[unit.org]):
            asked[cell][minute] += multiple * routes.asked[unit]
    return max(longest_backlog(routes.size, minutes) for minutes in asked)


def _most_orgs(routes: Routes) -> int:
    """Return how many orgs the cell with most of them has: so many miss it when it fails."""
    orgs: dict[int, set[int]] = {}
    for unit, cell in routes.cell_of.items():
        orgs.setdefault(cell, set()).add(unit.org)
    return max(map(len, orgs.values()))
