"""Who moves the org: what is next is read from rows, and a row is changed only as it was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perdure_testkit.cells.moving.rows import Cell, Directory, EffectStatus, Standing, World

Action = Callable[[World], None]


@dataclass(frozen=True, slots=True)
class Flaws:
    """Guards that are left out, to see that the laws notice."""

    trusts_the_route: bool = False
    """A cell serves whoever comes, whatever it knows of its own standing."""

    freezes_what_runs: bool = False
    switches_unread: bool = False
    """The directory is switched without looking at its epoch."""

    serves_early: bool = False
    """The new cell serves once it is filled, before the directory names it."""

    runs_forgotten: int = 0
    """So many are not copied, and what was copied is not compared."""


NO_FLAWS = Flaws()


@dataclass(frozen=True, slots=True)
class Move:
    """The wish to have the org in `to`, made while the directory said `origin` at `epoch`."""

    origin: str
    to: str
    epoch: int
    flaws: Flaws = NO_FLAWS

    def next_action(self, world: World) -> Action | None:
        """Return what is to be done next, by the rows as they are; None when nothing is."""
        if world.directory.epoch == self.epoch:
            return self._before(world.cells[self.origin], world.cells[self.to])
        return self._after(world.directory, world.cells)

    def abort(self, world: World) -> None:
        """Have the org stay; nothing happens once it was switched."""
        world.directory.switch(self.epoch, self.origin, self.epoch + 2)

    def _before(self, old: Cell, new: Cell) -> Action:
        if new.epoch != self.epoch + 1:
            return self._announce
        if old.standing is Standing.SERVING:
            return self._fence
        if old.standing is Standing.LEAVING:
            return self._freeze
        if new.standing is Standing.ARRIVING:
            missing = sorted(old.runs.keys() - new.runs.keys())[self.flaws.runs_forgotten :]
            return self._copy(missing[0]) if missing else self._seal
        if self.flaws.serves_early and new.standing is Standing.SEALED:
            return self._serve(self.to)
        return self._switch

    def _after(self, directory: Directory, cells: dict[str, Cell]) -> Action | None:
        """Have the cells follow the directory: what is not here by it goes, what is here serves."""
        for cell in cells.values():
            if _is_past(cell, directory):
                return self._leave(cell.name)
        here = cells[directory.cell]
        return self._serve(here.name) if _is_called(here, directory) else None

    def _announce(self, world: World) -> None:
        # One that is being filled already may be so by a late word of a move that was given up.
        new = world.cells[self.to]
        if new.standing in (Standing.ABSENT, Standing.ARRIVING) and new.epoch <= self.epoch:
            new.standing, new.epoch, new.runs = Standing.ARRIVING, self.epoch + 1, {}

    def _fence(self, world: World) -> None:
        old = world.cells[self.origin]
        if self._is(old, Standing.SERVING, self.epoch):
            old.standing = Standing.LEAVING

    def _freeze(self, world: World) -> None:
        old = world.cells[self.origin]
        drained = self.flaws.freezes_what_runs or not old.leased()
        if self._is(old, Standing.LEAVING, self.epoch) and drained:
            old.standing = Standing.FROZEN

    def _copy(self, key: str) -> Action:
        def copy(world: World) -> None:
            old, new = world.cells[self.origin], world.cells[self.to]
            if self._is(new, Standing.ARRIVING, self.epoch + 1) and key in old.runs:
                new.runs[key] = old.runs[key].copy()
                new.runs[key].leased = False
                _settle_unknown(new, key)

        return copy

    def _seal(self, world: World) -> None:
        old, new = world.cells[self.origin], world.cells[self.to]
        equal = self.flaws.runs_forgotten > 0 or old.runs.keys() == new.runs.keys()
        frozen = self._is(old, Standing.FROZEN, self.epoch)
        if self._is(new, Standing.ARRIVING, self.epoch + 1) and frozen and equal:
            new.standing = Standing.SEALED

    def _switch(self, world: World) -> None:
        expected = world.directory.epoch if self.flaws.switches_unread else self.epoch
        world.directory.switch(expected, self.to, self.epoch + 1)

    def _serve(self, name: str) -> Action:
        def serve(world: World) -> None:
            cell = world.cells[name]
            early = self.flaws.serves_early and cell.standing is Standing.SEALED
            if _is_called(cell, world.directory) or early:
                cell.standing, cell.epoch = Standing.SERVING, max(cell.epoch, world.directory.epoch)

        return serve

    def _leave(self, name: str) -> Action:
        def leave(world: World) -> None:
            cell = world.cells[name]
            if _is_past(cell, world.directory):
                cell.standing, cell.epoch, cell.runs = Standing.ABSENT, world.directory.epoch, {}

        return leave

    @staticmethod
    def _is(cell: Cell, standing: Standing, epoch: int) -> bool:
        return cell.standing is standing and cell.epoch == epoch


def _is_past(cell: Cell, directory: Directory) -> bool:
    """Whether what a cell has of the org belongs to a move that was decided otherwise."""
    elsewhere = cell.name != directory.cell and cell.epoch < directory.epoch
    return elsewhere and cell.standing is not Standing.ABSENT


def _is_called(cell: Cell, directory: Directory) -> bool:
    """Whether a cell may serve: it was filled for this epoch, or its org stays after all."""
    if cell.name != directory.cell:
        return False
    if cell.standing is Standing.SEALED:
        return cell.epoch == directory.epoch
    stays = cell.standing in (Standing.SERVING, Standing.LEAVING, Standing.FROZEN)
    return stays and cell.epoch < directory.epoch


def _settle_unknown(cell: Cell, key: str) -> None:
    """What was in flight when its cell was frozen may have been performed: nobody repeats it."""
    effects = cell.runs[key].effects
    for step, status in effects.items():
        if status is EffectStatus.IN_FLIGHT:
            effects[step] = EffectStatus.OUTCOME_UNKNOWN
