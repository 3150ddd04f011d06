"""What must hold after every action, and at the end."""

from __future__ import annotations

from perdure_testkit.cells.moving.rows import Standing, World

ALIVE = (Standing.SERVING, Standing.LEAVING)


def broken(world: World) -> str | None:
    """Return the law that does not hold, or None."""
    if len([cell for cell in world.cells.values() if cell.standing in ALIVE]) > 1:
        return "the org's runs are live in two cells"
    here = world.cells[world.directory.cell]
    if not world.accepted <= here.runs.keys():
        return "a run that was accepted is gone"
    if any(here.runs[key].done < done for key, done in world.reported.items()):
        return "a result that was taken is gone"
    if any(len(cells) > 1 for cells in world.begun_in.values()):
        return "a call was begun twice"
    for key, run in here.runs.items():
        if run.parked and (key, run.done) not in world.lost:
            return "a person is asked about a call whose worker had its lease"
    return None


def unfinished(world: World) -> str | None:
    """Return what is left over when everybody has had time, or None."""
    here = world.cells[world.directory.cell]
    if here.standing is not Standing.SERVING:
        return f"nobody serves: {here.name} is {here.standing.value}"
    if any(cell.standing is not Standing.ABSENT for cell in world.cells.values() if cell != here):
        return "a cell kept rows of an org that is not its own"
    if any(run.done < run.steps for run in here.runs.values()):
        return "a run did not end"
    return None
