"""Loads effects that were begun by themselves, and the epoch, where events are about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from perdure_machine.decide.effects import key_of
from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import (
    BeginEffect,
    DecideEffect,
    ExpireLease,
    FireTimer,
    Report,
    SettleEffect,
)
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.view import EffectState, Epoch, RunState, View, Wanted

from perdure_store.apply.batch import RunEvents
from perdure_store.apply.rows import whole_effect_state
from perdure_store.pool import Connection
from perdure_store.sql import sql

Named = TypeVar("Named", str, int)


async def with_effects(
    connection: Connection, views: dict[UUID, View], batch: Sequence[RunEvents]
) -> dict[UUID, View]:
    """Add what the events of a batch are about: effects, and the epoch that calls begin in."""
    present = [(views[one.run_id], one) for one in batch if one.run_id in views]
    keys = [(view.run.run_id, key) for view, one in present for key in _keys(view, one)]
    steps = [(view.run.run_id, step) for view, one in present for step in _steps(view, one)]
    if keys:
        found = await _fetch(connection, "effects.load", keys)
        for run_id, known in _by_run(keys).items():
            views[run_id] = _known(views[run_id], found[run_id], keys=frozenset(known))
    if steps:
        found = await _fetch(connection, "effects.load_begun", steps)
        for run_id, begun in _by_run(steps).items():
            views[run_id] = _known(views[run_id], found[run_id], steps=frozenset(begun))
    asking = [one.run_id for _, one in present if _asks_epoch(one)]
    if asking:
        for run_id, epoch in (await _epochs(connection, asking)).items():
            views[run_id] = replace(views[run_id], epoch=epoch)
    return views


async def load_wanted_effects(
    connection: Connection, run: RunState, wanted: Wanted
) -> tuple[EffectState, ...]:
    """Load the effects that a decision asked for."""
    found: list[EffectState] = []
    if wanted.effects:
        keys = [(run.run_id, key) for key in sorted(wanted.effects)]
        found += (await _fetch(connection, "effects.load", keys))[run.run_id]
    if wanted.ledgers:
        steps = [(run.run_id, step) for step in sorted(wanted.ledgers)]
        found += (await _fetch(connection, "effects.load_begun", steps))[run.run_id]
    return tuple(found)


async def load_epoch(connection: Connection, run: RunState) -> Epoch:
    """Load the epoch that calls of a run begin in."""
    return (await _epochs(connection, [run.run_id]))[run.run_id]


def merged(
    view: Mapping[str, EffectState], loaded: Sequence[EffectState]
) -> dict[str, EffectState]:
    """Return the effects of a view with others; what the batch changed stays.

    One that was loaded without its call is taken with it: no decision has changed it so.
    """
    effects = dict(view)
    for effect in loaded:
        known = effects.get(effect.key)
        if known is None or (known.call is None and effect.call is not None):
            effects[effect.key] = effect
    return effects


def _known(
    view: View,
    found: Sequence[EffectState],
    *,
    keys: frozenset[str] = frozenset(),
    steps: frozenset[int] = frozenset(),
) -> View:
    return replace(
        view,
        effects=merged(view.effects, found),
        known_effects=(view.known_effects or frozenset()) | keys,
        known_ledgers=(view.known_ledgers or frozenset()) | steps,
    )


def _keys(view: View, events: RunEvents) -> Iterator[str]:
    for one in events.events:
        match one.event:
            case BeginEffect(step=step, name=name) if step in view.steps:
                yield key_of(view.steps[step], name)
            case SettleEffect(key=key) | DecideEffect(key=key):
                yield key
            case FireTimer(timer_id=timer_id):
                timer = view.timers.get(timer_id)
                if timer is not None and timer.kind is TimerKind.EFFECT_LEASE:
                    yield (timer.details or b"").decode()
            case _:
                pass


def _steps(view: View, events: RunEvents) -> Iterator[int]:
    if view.run.has_effects:
        for one in events.events:
            if isinstance(one.event, Report | ExpireLease):
                yield one.event.step


def _asks_epoch(events: RunEvents) -> bool:
    return any(
        isinstance(one.event, BeginEffect) and one.event.kind is not EffectKind.PROVIDER
        for one in events.events
    )


async def _fetch(
    connection: Connection, query: str, named: Sequence[tuple[UUID, Named]]
) -> Mapping[UUID, list[EffectState]]:
    found: dict[UUID, list[EffectState]] = defaultdict(list)
    runs, others = zip(*named, strict=True)
    for row in await connection.fetch(sql(query), runs, others):
        found[row["run_id"]].append(whole_effect_state(row))
    return found


async def _epochs(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, Epoch]:
    rows = await connection.fetch(sql("effects.load_epoch"), list(run_ids))
    return {row["run_id"]: Epoch(row["epoch"], row["is_open"], row["goes_back"]) for row in rows}


def _by_run(named: Sequence[tuple[UUID, Named]]) -> dict[UUID, set[Named]]:
    found: dict[UUID, set[Named]] = defaultdict(set)
    for run_id, one in named:
        found[run_id].add(one)
    return found
