"""Loads what decisions on a batch of locked runs may read, and no more (protocol p1, step 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg
from perdure_machine.budgets import CostState, Spending
from perdure_machine.decide.compensating import MAX_LOOKED_AT
from perdure_machine.decide.parking import MAX_MOVED_AT_ONCE
from perdure_machine.definition.model import Definition
from perdure_machine.erasure import Place, Portion
from perdure_machine.events import (
    Acquire,
    BeginEffect,
    Emitted,
    Event,
    ExpireLease,
    ExpireRun,
    FireTimer,
    ParkOnTimer,
    Release,
    Report,
    Succeeded,
    TellOfChild,
)
from perdure_machine.mailbox import Mailbox
from perdure_machine.places import TOP, At
from perdure_machine.replacing import replace
from perdure_machine.states import ENDED, RunLimit, StepStatus, TimerKind
from perdure_machine.view import (
    ChildState,
    EffectState,
    Epoch,
    RowsOf,
    RunState,
    ScopeState,
    StepState,
    TimerState,
    View,
    Wanted,
)

from perdure_store.apply.batch import RunEvents
from perdure_store.apply.children import load_leaving, still_leaving, with_children
from perdure_store.apply.consent import load_suppressed
from perdure_store.apply.erasing import load_portion
from perdure_store.apply.keys import KeyLocks
from perdure_store.apply.load_effects import (
    load_epoch,
    load_wanted_effects,
    merged,
    with_effects,
)
from perdure_store.apply.load_scopes import (
    Blocks,
    load_blocks,
    load_open_inside,
    load_rows,
    with_scopes,
)
from perdure_store.apply.mail import MoreMail, awaiting, load_mailboxes, load_more_mail
from perdure_store.apply.rows import (
    attempt_state,
    effect_state,
    run_state,
    step_state,
    timer_state,
)
from perdure_store.apply.spending import load_costs
from perdure_store.causes import hold_causes
from perdure_store.pool import Connection
from perdure_store.sql import sql

_ENDS_WAITS = frozenset({TimerKind.WAIT, TimerKind.START_CHILD, TimerKind.CHILD_ENDED})
_NO_MAIL = Mailbox()


@dataclass(frozen=True, slots=True)
class _Named:
    """A step that an event names: whether its input is read, and the steps around it."""

    step: int
    with_input: bool
    with_near: bool


async def lock_runs(
    connection: Connection, run_ids: Sequence[UUID], *, wait: bool
) -> dict[UUID, RunState]:
    """Lock runs in id order and return them; without `wait` those that others hold are left out."""
    query = sql("apply.lock_runs" if wait else "apply.lock_free_runs")
    rows = await connection.fetch(query, sorted(run_ids))
    return {row["run_id"]: run_state(row) for row in rows}


async def load_views(
    connection: Connection,
    runs: Mapping[UUID, RunState],
    batch: Sequence[RunEvents],
    definitions: Mapping[int, Definition],
) -> dict[UUID, View]:
    """Return the view of every locked run that the batch's events need."""
    timers = await _load_timers(connection, batch)
    mail = await load_mailboxes(connection, batch)
    named = {
        one.run_id: [
            *_named_steps(one, timers.get(one.run_id, {})),
            *_awaiting_steps(mail.get(one.run_id, _NO_MAIL)),
        ]
        for one in batch
    }
    rows = await _load_named(connection, runs, named)
    views = {
        run_id: _view(
            run, rows[run_id], timers.get(run_id, {}), definitions[run.workflow_id], named[run_id]
        )
        for run_id, run in runs.items()
    }
    views = {
        run_id: replace(view, mail=mail.get(run_id, view.mail)) for run_id, view in views.items()
    }
    views = await _with_inputs(connection, views, named, definitions)
    views = await with_scopes(connection, views)
    views = await with_children(connection, views)
    views = await _with_attempts(connection, views, batch)
    views = await with_effects(connection, views, batch)
    return await _with_passed(connection, views, batch)


@dataclass(frozen=True, slots=True)
class More:
    """What was loaded in addition because a decision asked for it."""

    wanted: Wanted
    steps: tuple[StepState, ...]
    effects: tuple[EffectState, ...]
    input: bytes | None
    blocks: Blocks
    open_inside: Mapping[str, tuple[StepState, ...]]
    rows: Mapping[RowsOf, tuple[ScopeState, ...]]
    mail: MoreMail
    suppressed: Mapping[int, bool]
    erasing: Mapping[Place, Portion]
    money: tuple[Mapping[int, CostState], Spending | None]
    leaving: tuple[ChildState, ...] = ()
    reopening: tuple[int, ...] = ()
    compensable: tuple[int, ...] = ()
    causes: Mapping[str, int] = field(default_factory=dict)
    connections: Mapping[int, str] = field(default_factory=dict)
    epoch: Epoch | None = None

    def added_to(self, view: View) -> View:
        """Return `view` with this; a row that the batch changed already only gains payloads."""
        steps = dict(view.steps)
        inside = (step for found in self.open_inside.values() for step in found)
        for step in (*self.steps, *self.blocks.owners, *inside):
            steps[step.step] = _with_payloads(steps.get(step.step, step), step)
        unfinished = view.unfinished
        if self.wanted.unfinished:
            unfinished = tuple(
                n for n, step in steps.items() if step.status in self.wanted.unfinished
            )
        children = {**{child.step: child for child in self.leaving}, **view.children}
        return replace(
            view,
            run=replace(view.run, input=view.run.input if self.input is None else self.input),
            steps=steps,
            known_nodes=view.known_nodes | self.wanted.nodes,
            known_places=view.known_places | ({TOP} if self.wanted.top else set()),
            effects=merged(view.effects, self.effects),
            known_effects=(view.known_effects or frozenset()) | self.wanted.effects,
            known_ledgers=(view.known_ledgers or frozenset()) | self.wanted.ledgers,
            epoch=self.epoch or view.epoch,
            unfinished=unfinished,
            compensable=self.compensable if self.wanted.compensable else view.compensable,
            reopening=self.reopening if self.wanted.reopening else view.reopening,
            scopes={**self.blocks.scopes, **view.scopes},
            blocks={**self.blocks.blocks, **view.blocks},
            rows={**view.rows, **self.rows},
            open_inside={
                **view.open_inside,
                **{
                    prefix: tuple(one.step for one in found)
                    for prefix, found in self.open_inside.items()
                },
            },
            children=children,
            absent_scopes=view.absent_scopes | (self.wanted.scopes - self.blocks.scopes.keys()),
            leaving=still_leaving(self.leaving, children) if self.wanted.leaving else view.leaving,
            mail=self.mail.added_to(view.mail),
            suppressed={**view.suppressed, **self.suppressed},
            erasing={**view.erasing, **self.erasing},
            causes={**view.causes, **self.causes},
            connections={**self.connections, **view.connections},
            costs={**self.money[0], **view.costs},
            spending=view.spending if view.spending is not None else self.money[1],
        )


async def load_more(connection: Connection, run: RunState, wanted: Wanted, keys: KeyLocks) -> More:
    """Load what a decision on a locked run asked for.

    Raises `KeysOutOfOrder` and `CausesMissing`.
    """
    rows: list[asyncpg.Record] = []
    effects: tuple[EffectState, ...] = ()
    payload = None
    if wanted.nodes:
        rows += await _fetch_nodes(connection, run, wanted)
    if wanted.steps:
        named = [_Named(step, with_input=True, with_near=False) for step in sorted(wanted.steps)]
        found = await _fetch_named(connection, [(run, one) for one in named])
        effects = tuple(_effects(found))
        rows += found
    if wanted.unfinished:
        states, after = sorted(wanted.unfinished), wanted.unfinished_after
        rows += await connection.fetch(
            sql("apply.load_unfinished"), run.run_id, states, after, MAX_MOVED_AT_ONCE + 1
        )
    effects += await load_wanted_effects(connection, run, wanted)
    reopening: list[asyncpg.Record] = []
    compensable: list[asyncpg.Record] = []
    for below in wanted.compensable:
        compensable = await connection.fetch(
            sql("apply.load_compensable"), run.run_id, below, MAX_LOOKED_AT + 1
        )
        effects += tuple(_effects(compensable))
        rows += compensable
    for after in wanted.reopening:
        reopening = await connection.fetch(
            sql("apply.load_reopening"), run.run_id, after, MAX_MOVED_AT_ONCE + 1
        )
        effects += tuple(_effects(reopening))
        rows += reopening
    leaving = await load_leaving(connection, run.run_id) if wanted.leaving else ()
    if wanted.top:
        rows += await connection.fetch(sql("apply.load_top"), run.run_id)
    if wanted.input:
        (row,) = await connection.fetch(sql("apply.load_inputs"), [run.run_id])
        payload = row["input"]
    return More(
        wanted,
        tuple(map(step_state, rows)),
        effects,
        payload,
        await load_blocks(connection, run, wanted),
        {prefix: await load_open_inside(connection, run, prefix) for prefix in wanted.open_inside},
        {rows: await load_rows(connection, run, rows) for rows in wanted.rows},
        await load_more_mail(connection, run, wanted, keys),
        await load_suppressed(connection, run.run_id, wanted.consents),
        {place: await load_portion(connection, run.run_id, place) for place in wanted.erasing},
        await load_costs(connection, run.run_id, wanted.costs),
        leaving,
        tuple(row["step"] for row in reopening),
        tuple(row["step"] for row in compensable),
        await hold_causes(connection, run.org, wanted.causes) if wanted.causes else {},
        await _load_connections(connection, run, wanted) if wanted.connections else {},
        await load_epoch(connection, run) if wanted.epoch else None,
    )


async def _load_connections(
    connection: Connection, run: RunState, wanted: Wanted
) -> dict[int, str]:
    steps = sorted(wanted.connections)
    rows = await connection.fetch(sql("capacity.load_connections"), run.run_id, steps)
    return {**dict.fromkeys(steps, ""), **{row["step"]: row["connection"] for row in rows}}


async def _fetch_nodes(
    connection: Connection, run: RunState, wanted: Wanted
) -> list[asyncpg.Record]:
    nodes = sorted(wanted.nodes)
    return await connection.fetch(
        sql("apply.load_nodes"),
        run.run_id,
        [at.scope for at in nodes],
        [at.generation for at in nodes],
        [at.node for at in nodes],
        [at in wanted.outputs for at in nodes],
    )


def _effects(rows: Iterable[asyncpg.Record]) -> Iterator[EffectState]:
    return (effect for effect in map(effect_state, rows) if effect is not None)


def _with_payloads(mine: StepState, loaded: StepState) -> StepState:
    return replace(
        mine,
        input=mine.input if mine.input is not None else loaded.input,
        output=mine.output if mine.output is not None else loaded.output,
    )


def _named_steps(events: RunEvents, timers: Mapping[int, TimerState]) -> Iterator[_Named]:
    for one in events.events:
        match one.event:
            case Acquire(step=step):
                yield _Named(step, with_input=True, with_near=False)
            case Report(step=step, outcome=outcome):
                yield _Named(step, with_input=False, with_near=isinstance(outcome, Succeeded))
            case Release(step=step) | ExpireLease(step=step) | BeginEffect(step=step):
                yield _Named(step, with_input=False, with_near=False)
            case (
                FireTimer(timer_id=timer_id)
                | ParkOnTimer(timer_id=timer_id)
                | TellOfChild(timer_id=timer_id)
            ):
                timer = timers.get(timer_id)
                if timer is not None and timer.step is not None:
                    asks = timer.kind is TimerKind.START_CHILD and isinstance(one.event, FireTimer)
                    more = asks or timer.kind is TimerKind.FAN_OUT
                    near = timer.kind in _ENDS_WAITS and not asks
                    yield _Named(timer.step, with_input=more, with_near=near)
            case _:
                pass


def _awaiting_steps(mail: Mailbox) -> Iterator[_Named]:
    """Name the steps that a signal may end, so that what is around them comes with them."""
    return (_Named(step, with_input=False, with_near=True) for step in awaiting(mail))


async def _load_timers(
    connection: Connection, batch: Sequence[RunEvents]
) -> dict[UUID, dict[int, TimerState]]:
    ids = [
        one.event.timer_id
        for events in batch
        for one in events.events
        if isinstance(one.event, FireTimer | ParkOnTimer | TellOfChild | Emitted)
    ]
    timers: dict[UUID, dict[int, TimerState]] = defaultdict(dict)
    if ids:
        for row in await connection.fetch(sql("apply.load_timers"), ids):
            timers[row["run_id"]][row["timer_id"]] = timer_state(row)
    return timers


async def _load_named(
    connection: Connection,
    runs: Mapping[UUID, RunState],
    named: Mapping[UUID, Sequence[_Named]],
) -> dict[UUID, list[asyncpg.Record]]:
    wanted = [(run, one) for run_id, run in runs.items() for one in named[run_id]]
    rows: dict[UUID, list[asyncpg.Record]] = defaultdict(list)
    for row in await _fetch_named(connection, wanted) if wanted else ():
        rows[row["run_id"]].append(row)
    return rows


async def _fetch_named(
    connection: Connection, wanted: Sequence[tuple[RunState, _Named]]
) -> list[asyncpg.Record]:
    return await connection.fetch(
        sql("apply.load_steps"),
        [run.run_id for run, _ in wanted],
        [one.step for _, one in wanted],
        [one.with_input for _, one in wanted],
        [one.with_near for _, one in wanted],
        [run.workflow_id for run, _ in wanted],
    )


def _view(
    run: RunState,
    rows: Sequence[asyncpg.Record],
    timers: Mapping[int, TimerState],
    definition: Definition,
    named: Sequence[_Named],
) -> View:
    steps = {row["step"]: step_state(row) for row in rows}
    effects = {effect.key: effect for effect in _effects(rows)}
    known: set[At] = set()
    for one in named:
        if one.with_near and one.step in steps:
            known |= set(_near(definition, steps[one.step]))
    return View(
        run,
        steps,
        frozenset(known),
        effects=effects,
        timers=timers,
        known_effects=frozenset(),
        known_ledgers=frozenset(),
    )


def _near(definition: Definition, step: StepState) -> Iterator[At]:
    """Return the nodes around a step of which it was looked whether they have one: in its scope."""
    nodes = definition.nodes
    if step.node not in nodes:
        return  # a migration left it behind
    prefetch = nodes[step.node].prefetch
    for id_ in prefetch.steps | prefetch.outputs:
        if nodes[id_].container == nodes[step.node].container:
            yield At(*step.place, id_)


async def _with_inputs(
    connection: Connection,
    views: dict[UUID, View],
    named: Mapping[UUID, Sequence[_Named]],
    definitions: Mapping[int, Definition],
) -> dict[UUID, View]:
    wanting = [
        run_id
        for run_id, view in views.items()
        for one in named[run_id]
        if one.with_near
        and one.step in view.steps
        and _reads_input(definitions[view.run.workflow_id], view.steps[one.step])
    ]
    if wanting:
        for row in await connection.fetch(sql("apply.load_inputs"), wanting):
            view = views[row["run_id"]]
            views[row["run_id"]] = replace(view, run=replace(view.run, input=row["input"]))
    return views


def _reads_input(definition: Definition, step: StepState) -> bool:
    node = definition.nodes.get(step.node)
    return node is not None and node.prefetch.input


async def _with_attempts(
    connection: Connection, views: dict[UUID, View], batch: Sequence[RunEvents]
) -> dict[UUID, View]:
    wanted = [
        (one.run_id, event.event.step)
        for one in batch
        if one.run_id in views
        for event in one.events
        if isinstance(event.event, Acquire | Report) and _asks_past(views[one.run_id], event.event)
    ]
    if not wanted:
        return views
    attempts = defaultdict(list)
    for row in await connection.fetch(
        sql("apply.load_attempts"), [run for run, _ in wanted], [step for _, step in wanted]
    ):
        attempts[row["run_id"]].append(attempt_state(row))
    for run_id, found in attempts.items():
        views[run_id] = replace(views[run_id], attempts=tuple(dict.fromkeys(found)))
    return views


async def _with_passed(
    connection: Connection, views: dict[UUID, View], batch: Sequence[RunEvents]
) -> dict[UUID, View]:
    """Look up, under the lock, which limits are passed where an event says that one is (R7)."""
    asked = [
        one.run_id
        for one in batch
        if one.run_id in views and any(isinstance(event.event, ExpireRun) for event in one.events)
    ]
    if asked:
        for row in await connection.fetch(sql("apply.load_passed"), asked):
            passed = frozenset(limit for limit in RunLimit if row[limit])
            views[row["run_id"]] = replace(views[row["run_id"]], passed=passed)
    return views


def _asks_past(view: View, event: Event) -> bool:
    """Whether the answer may lie in an acquisition that ended before this batch.

    The event may meet the step in another state, which an earlier event of the batch led to.
    """
    match event:
        case Acquire(step=number):
            step = view.steps.get(number)
            return step is not None and step.status not in ENDED and step.fence > 0
        case Report(step=number, fence=fence, lease_id=lease_id):
            step = view.steps.get(number)
            return step is not None and (step.status, step.fence, step.lease_id) != (
                StepStatus.RUNNING,
                fence,
                lease_id,
            )
        case _:
            return False
