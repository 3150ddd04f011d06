"""One play: the org moves there and back while its runs go on, and those who move it die."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from perdure_testkit.cells.moving import life
from perdure_testkit.cells.moving.laws import broken, unfinished
from perdure_testkit.cells.moving.mover import NO_FLAWS, Action, Flaws, Move
from perdure_testkit.cells.moving.rows import Cell, Directory, Standing, World
from perdure_testkit.simulation.chance import stream

KEYS = ("a", "b", "c", "d")
TURNS = 400
"""In which things go wrong; as many follow in which nothing does."""

BEGINS_AFTER = 12
"""Turns before the first move, so that there is something to move."""

LATE = 0.5
"""The share of a dead mover's last actions that still arrive, later."""


@dataclass(frozen=True, slots=True)
class Case:
    """Which seed, in which of the mover's actions it dies, after how many the org is to stay."""

    seed: int
    stops: frozenset[int] = frozenset()
    abort_after: int | None = None
    flaws: Flaws = NO_FLAWS


@dataclass(slots=True)
class _Play:
    case: Case
    chance: Random
    world: World
    move: Move
    actions: int = 0
    given: list[life.HandOut] = field(default_factory=list)
    late: list[Action] = field(default_factory=list)
    calm: bool = False

    def turn(self) -> None:
        """Let somebody do something."""
        self.chance.choice((self._start, self._work, self._report, self._lose, self._move))()

    def before_the_move(self, number: int) -> None:
        """Have something begun that is to be moved."""
        (self._start, self._work, self._report)[number % 3]()

    def _cell(self) -> Cell:
        """Return the cell that somebody asks, by a route that may be an old one."""
        stale = not self.calm and self.chance.random() < 0.3
        name = self.chance.choice("AB") if stale else self.world.directory.cell
        return self.world.cells[name]

    def _start(self) -> None:
        life.start(self.world, self._cell(), self.chance.choice(KEYS), self.case.flaws)

    def _work(self) -> None:
        life.decide(self.world, self._cell(), self.chance.choice(KEYS))
        given = life.lease(self.world, self._cell(), self.chance.choice(KEYS))
        if given is not None:
            self.given.append(given)

    def _report(self) -> None:
        if self.given:
            life.report(self.world, self.given.pop(self.chance.randrange(len(self.given))))

    def _lose(self) -> None:
        if not self.calm and self.chance.random() < 0.1:
            life.lose(self.world, self._cell(), self.chance.choice(KEYS))

    def _move(self) -> None:
        if self.late and self.chance.random() < 0.2:
            self.late.pop(0)(self.world)
            return
        if self.actions == self.case.abort_after:
            self.move.abort(self.world)
        action = self.move.next_action(self.world)
        if action is None:
            self._go_back()
            return
        self.actions += 1
        if self.actions in self.case.stops and not self.calm:
            # It died: nobody knows whether the action was done, and another mover reads the rows.
            self.late += [action] if self.chance.random() < LATE else []
            return
        action(self.world)

    def _go_back(self) -> None:
        directory = self.world.directory
        other = "B" if directory.cell == "A" else "A"
        if not self.calm:
            self.move = Move(directory.cell, other, directory.epoch, self.case.flaws)


def play(case: Case) -> str | None:
    """Play a case and return the law that it broke, or None."""
    cells = {"A": Cell("A", Standing.SERVING, 1), "B": Cell("B")}
    world = World(Directory("A"), cells)
    playing = _Play(case, stream(case.seed, "move"), world, Move("A", "B", 1, case.flaws))
    for number in range(2 * TURNS):
        playing.calm = number >= TURNS
        playing.turn() if number >= BEGINS_AFTER else playing.before_the_move(number)
        if problem := broken(world):
            return problem
    return unfinished(world)
