"""The table by which ingest routes: which cell has which org, or which slots of a large one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from perdure_testkit.cells.cell import CellSize
from perdure_testkit.cells.load import Org

SLOTS = 256
"""Into which the runs of a large org fall, by the hash of their start keys."""

WHOLE = -1


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """What is in one cell: an org as a `WHOLE`, or one slot of it."""

    org: int
    slot: int = WHOLE


@dataclass(slots=True)
class Routes:
    """Cells with their units, and what each unit asks for; whatever is placed stays until moved."""

    size: CellSize
    cell_of: dict[Unit, int] = field(default_factory=dict)
    asked: dict[Unit, float] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)
    """Steps a second by cell."""

    def update(self, orgs: Iterable[Org]) -> None:
        """Take what orgs ask for by now, split the large ones and place the new ones."""
        known = dict(self.cell_of)
        self.asked = {unit: asked for org in orgs for unit, asked in self._units(org, known)}
        self.cell_of = {unit: cell for unit in self.asked if (cell := _home(known, unit)) >= 0}
        self.loads = [0.0] * len(self.loads)
        for unit, cell in self.cell_of.items():
            self.loads[cell] += self.asked[unit]
        for unit in sorted(self.asked.keys() - self.cell_of.keys()):
            self._put(unit, self._room_for(self.asked[unit]))

    def rebalance(self) -> Mapping[Unit, float]:
        """Move units out of cells that carry too much; return those moved and what they ask for."""
        moved: dict[Unit, float] = {}
        for cell in [one for one, load in enumerate(self.loads) if self._is_high(load)]:
            for unit in self._leaving(cell):
                self.loads[cell] -= self.asked[unit]
                self._put(unit, self._room_for(self.asked[unit], without=cell))
                moved[unit] = self.asked[unit]
        return moved

    def split_orgs(self) -> int:
        """Return how many orgs are spread by their slots."""
        return len({unit.org for unit in self.cell_of if unit.slot != WHOLE})

    def _units(self, org: Org, known: Mapping[Unit, int]) -> Iterable[tuple[Unit, float]]:
        was_split = Unit(org.number, 0) in known
        if not was_split and org.steps_per_s <= self.size.split * self.size.steps_per_s:
            return [(Unit(org.number), org.steps_per_s)]
        return [(Unit(org.number, slot), org.steps_per_s / SLOTS) for slot in range(SLOTS)]

    def _is_high(self, load: float) -> bool:
        return load > self.size.high * self.size.steps_per_s

    def _leaving(self, cell: int) -> list[Unit]:
        """Return units to move until the cell is filled as when placed, the great ones first."""
        excess = self.loads[cell] - self.size.fill * self.size.steps_per_s
        leaving = []
        mine = (unit for unit, home in self.cell_of.items() if home == cell)
        for unit in sorted(mine, key=lambda one: (-self.asked[one], one)):
            if excess <= 0:
                break
            if self.asked[unit] <= 2 * excess:
                leaving.append(unit)
                excess -= self.asked[unit]
        return leaving

    def _room_for(self, asked: float, without: int = -1) -> int:
        """Return the cell that carries least, or a new one if that would be filled."""
        candidates = (one for one in range(len(self.loads)) if one != without)
        least = min(candidates, key=self.loads.__getitem__, default=None)
        if (
            least is not None
            and self.loads[least] + asked <= self.size.fill * self.size.steps_per_s
        ):
            return least
        self.loads.append(0.0)
        return len(self.loads) - 1

    def _put(self, unit: Unit, cell: int) -> None:
        self.cell_of[unit] = cell
        self.loads[cell] += self.asked[unit]


def cells_at_least(size: CellSize, steps_per_s: float) -> int:
    """Return how many cells a load needs if it could be divided at will."""
    return math.ceil(steps_per_s / (size.fill * size.steps_per_s))


def _home(known: Mapping[Unit, int], unit: Unit) -> int:
    """Return where a unit is; the slots of an org that was a whole are where the whole was."""
    return known.get(unit, known.get(Unit(unit.org), -1))
