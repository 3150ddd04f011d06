"""The durable rows of a move: where the directory says the org is, and what each cell has of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class Standing(Enum):
    """What a cell may do for the org; only the first two let any of its rows change."""

    SERVING = "serving"
    LEAVING = "leaving"
    """Takes reports of what it handed out, and begins nothing: no start, lease or call."""

    FROZEN = "frozen"
    ARRIVING = "arriving"
    """Is being filled by the mover."""

    SEALED = "sealed"
    """Is filled and found to be equal."""

    ABSENT = "absent"


class EffectStatus(Enum):
    """As in the engine, as far as it matters here."""

    IN_FLIGHT = "in_flight"
    SETTLED = "settled"
    OUTCOME_UNKNOWN = "outcome_unknown"


@dataclass(slots=True)
class Run:
    """A run of some steps in a row, each with one call that no key protects."""

    key: str
    steps: int
    done: int = 0
    fence: int = 0
    leased: bool = False
    effects: dict[int, EffectStatus] = field(default_factory=dict)

    def copy(self) -> Run:
        """Return the same as a row of another database."""
        return Run(self.key, self.steps, self.done, self.fence, self.leased, dict(self.effects))

    @property
    def parked(self) -> bool:
        """Whether a person has to say what its open call came to."""
        return self.effects.get(self.done) is EffectStatus.OUTCOME_UNKNOWN


@dataclass(slots=True)
class Cell:
    """One cell's rows of the org; `epoch` is that of the move which its standing belongs to."""

    name: str
    standing: Standing = Standing.ABSENT
    epoch: int = 0
    runs: dict[str, Run] = field(default_factory=dict)

    def leased(self) -> Iterable[Run]:
        """Return the runs that a worker has a step of."""
        return [run for run in self.runs.values() if run.leased]


@dataclass(slots=True)
class Directory:
    """The one row that decides where the org is; each change raises its epoch."""

    cell: str
    epoch: int = 1

    def switch(self, expected: int, cell: str, epoch: int) -> bool:
        """Name a cell, if the epoch is still the one expected; return whether it was."""
        if self.epoch != expected:
            return False
        self.cell, self.epoch = cell, epoch
        return True


@dataclass(slots=True)
class World:
    """All databases, what is outside of them, and what nobody but the laws may look at."""

    directory: Directory
    cells: dict[str, Cell]
    accepted: set[str] = field(default_factory=set)
    """Start keys whose callers were told that their runs are started."""

    begun_in: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    """By call the cells that sent a worker out to make it, each time anew."""

    lost: set[tuple[str, int]] = field(default_factory=set)
    """Calls whose worker lost its lease, so that a person has to be asked."""

    reported: dict[str, int] = field(default_factory=dict)
    """By start key the steps whose results were taken and answered."""
