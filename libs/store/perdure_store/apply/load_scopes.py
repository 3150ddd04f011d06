"""Loads scopes and the steps that hold them: for steps inside of any, and where a decision asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.decide.winding import MAX_STOPPED_AT_ONCE
from perdure_machine.places import TOP, Place
from perdure_machine.replacing import replace
from perdure_machine.view import BlockState, RowsOf, RunState, ScopeState, StepState, View, Wanted

from perdure_store.apply.rows import block_state, scope_state, step_state
from perdure_store.pool import Connection
from perdure_store.sql import sql

_UPCOMING = 8
"""Items loaded ahead, so that those that end together find the next ones."""

Key = tuple[UUID, Place]


@dataclass(slots=True)
class Blocks:
    """Scopes of a run, the steps that hold them, and those steps' counters."""

    scopes: dict[Place, ScopeState] = field(default_factory=dict)
    owners: list[StepState] = field(default_factory=list)
    blocks: dict[int, BlockState] = field(default_factory=dict)


async def with_scopes(connection: Connection, views: Mapping[UUID, View]) -> dict[UUID, View]:
    """Return the views with all scopes around the steps in them."""
    keys = [
        (run_id, place)
        for run_id, view in views.items()
        for place in {step.place for step in view.steps.values()}
        if place != TOP
    ]
    if not keys:
        return dict(views)
    found = await _load(connection, keys, [])
    return {run_id: _added(view, found.get(run_id, Blocks())) for run_id, view in views.items()}


async def load_blocks(connection: Connection, run: RunState, wanted: Wanted) -> Blocks:
    """Return the scopes and counters that a decision asked for."""
    if not wanted.scopes and not wanted.blocks:
        return Blocks()
    keys = [(run.run_id, place) for place in wanted.scopes]
    steps = [(run.run_id, step) for step in wanted.blocks]
    found = await _load(connection, keys, steps)
    return found.get(run.run_id, Blocks())


async def load_open_inside(
    connection: Connection, run: RunState, prefix: str
) -> tuple[StepState, ...]:
    """Return the next unfinished steps in scopes whose paths begin with `prefix`."""
    query = sql("scopes.load_open_inside")
    rows = await connection.fetch(query, run.run_id, prefix, MAX_STOPPED_AT_ONCE + 1)
    return tuple(map(step_state, rows))


async def load_rows(connection: Connection, run: RunState, rows: RowsOf) -> tuple[ScopeState, ...]:
    """Return some scopes of a step with their outputs."""
    indexes = range(rows.start, rows.start + rows.count)
    paths = [f"{rows.path}[{index}]" for index in indexes]
    query = sql("scopes.load_rows")
    found = await connection.fetch(query, run.run_id, paths, rows.generation)
    return tuple(replace(scope_state(row), output=row["output"]) for row in found)


async def _load(
    connection: Connection, keys: Sequence[Key], steps: Sequence[tuple[UUID, int]]
) -> dict[UUID, Blocks]:
    found: dict[UUID, Blocks] = defaultdict(Blocks)
    for row in await connection.fetch(
        sql("scopes.load_scopes"),
        [run_id for run_id, _ in keys],
        [place.scope for _, place in keys],
        [place.generation for _, place in keys],
        _UPCOMING,
    ):
        scope = scope_state(row)
        found[row["run_id"]].scopes[scope.place] = scope
    owners = {(run, scope.owner) for run, one in found.items() for scope in one.scopes.values()}
    await _load_owners(connection, sorted(owners), found)
    await _load_counters(connection, sorted(owners | set(steps)), found)
    return found


async def _load_owners(
    connection: Connection, owners: Sequence[tuple[UUID, int]], found: Mapping[UUID, Blocks]
) -> None:
    if owners:
        run_ids, steps = _columns(owners)
        for row in await connection.fetch(sql("scopes.load_owners"), run_ids, steps):
            found[row["run_id"]].owners.append(step_state(row))


async def _load_counters(
    connection: Connection, steps: Sequence[tuple[UUID, int]], found: dict[UUID, Blocks]
) -> None:
    run_ids, numbers = _columns(steps)
    for row in await connection.fetch(sql("scopes.load_blocks"), run_ids, numbers):
        found[row["run_id"]].blocks[row["step"]] = block_state(row)


def _columns(pairs: Iterable[tuple[UUID, int]]) -> tuple[list[UUID], list[int]]:
    listed = list(pairs)
    return [run_id for run_id, _ in listed], [step for _, step in listed]


def _added(view: View, blocks: Blocks) -> View:
    owners = {step.step: step for step in blocks.owners}
    return replace(
        view,
        steps={**owners, **view.steps},
        scopes=blocks.scopes,
        blocks=blocks.blocks,
    )
