"""What goes on meanwhile: starts, leases, reports, lost leases and a person's decisions.

Each of them asks one cell, by a route that may be an old one, and the cell asks its own rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure_testkit.cells.moving.mover import Flaws
from perdure_testkit.cells.moving.rows import Cell, EffectStatus, Run, Standing, World

STEPS = 3


@dataclass(frozen=True, slots=True)
class HandOut:
    """What a worker was given: a step of a run, by one cell and under one fence."""

    cell: str
    key: str
    step: int
    fence: int


def start(world: World, cell: Cell, key: str, flaws: Flaws) -> None:
    """Have a run under a start key; the caller repeats until it hears that there is one."""
    if cell.standing is Standing.SERVING or flaws.trusts_the_route:
        cell.runs.setdefault(key, Run(key, STEPS))
        world.accepted.add(key)


def lease(world: World, cell: Cell, key: str) -> HandOut | None:
    """Hand out a run's step with its call, which is thereby begun."""
    run = cell.runs.get(key)
    if cell.standing is not Standing.SERVING or run is None:
        return None
    if run.leased or run.parked or run.done == run.steps:
        return None
    run.fence, run.leased = run.fence + 1, True
    run.effects[run.done] = EffectStatus.IN_FLIGHT
    world.begun_in.setdefault((key, run.done), []).append(cell.name)
    return HandOut(cell.name, key, run.done, run.fence)


def report(world: World, given: HandOut) -> None:
    """Take a result where its step was handed out, if that cell still answers for the org."""
    cell = world.cells[given.cell]
    run = cell.runs.get(given.key)
    if cell.standing not in (Standing.SERVING, Standing.LEAVING) or run is None:
        return
    if run.leased and (run.done, run.fence) == (given.step, given.fence):
        run.effects[run.done] = EffectStatus.SETTLED
        run.done, run.leased = run.done + 1, False
        world.reported[given.key] = run.done


def lose(world: World, cell: Cell, key: str) -> None:
    """Take a lease away that ran out; what its call came to is unknown."""
    run = cell.runs.get(key)
    if cell.standing in (Standing.SERVING, Standing.LEAVING) and run is not None and run.leased:
        run.leased = False
        run.effects[run.done] = EffectStatus.OUTCOME_UNKNOWN
        world.lost.add((key, run.done))


def decide(world: World, cell: Cell, key: str) -> None:
    """Have a person say that an unknown call was performed."""
    run = cell.runs.get(key)
    if cell.standing is Standing.SERVING and run is not None and run.parked:
        run.effects[run.done] = EffectStatus.SETTLED
        run.done += 1
        world.reported[key] = run.done
