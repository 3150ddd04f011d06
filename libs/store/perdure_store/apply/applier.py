"""Applies a batch of events to runs in one transaction: lock, load, decide, write (protocol p1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.actions import Action
from perdure_machine.changes import Changes, collapse
from perdure_machine.decide import Decision, decide
from perdure_machine.definition.model import Definition
from perdure_machine.events import Event
from perdure_machine.replies import Reply
from perdure_machine.view import View, ViewTooNarrow
from perdure_runtime import fail_points
from perdure_runtime.errors import NotFound, PerdureError, Reason

from perdure_store.apply.batch import (
    MAX_WIDENINGS,
    Answers,
    Committed,
    OrgEvent,
    RunEvents,
    Skipped,
)
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.keys import KeyLocks, OrgKey, in_key_order
from perdure_store.apply.load import load_more, load_views, lock_runs
from perdure_store.apply.mail import write_mail
from perdure_store.apply.write import write_changes
from perdure_store.pool import Connection
from perdure_store.transaction import Transaction, transaction

COMMIT_EVENTS = fail_points.declare("store.commit_events")


class Applier:
    """Applies events to runs that exist.

    `retention` is how long a start key outlives its run, in seconds; `committed` is called with
    what was written, after the commit (R2).
    """

    def __init__(self, catalogue: Catalogue, *, retention: float, committed: Committed) -> None:
        self._catalogue = catalogue
        self._retention = retention
        self._committed = committed

    async def apply(
        self, connection: Connection, batch: Sequence[RunEvents], *, wait: bool
    ) -> list[Answers | Skipped]:
        """Apply the events of distinct runs, all or none, and answer each run in order.

        Without `wait` a run that somebody else holds is `Skipped`. Raises `GuardFailed` where a row
        was not as the decision saw it, and what the database raises; then nothing was applied.
        """

        async def attempt(first: frozenset[OrgKey]) -> list[Answers | Skipped]:
            return await self._catalogue.complete(
                connection, lambda: self._apply_once(connection, batch, first, wait=wait)
            )

        return await in_key_order(attempt)

    async def _apply_once(
        self,
        connection: Connection,
        batch: Sequence[RunEvents],
        first: frozenset[OrgKey],
        *,
        wait: bool,
    ) -> list[Answers | Skipped]:
        async with transaction(connection, COMMIT_EVENTS) as tx:
            runs = await lock_runs(connection, [one.run_id for one in batch], wait=wait)
            keys = KeyLocks(connection)
            await keys.lock(first)
            definitions = self._catalogue.definitions({run.workflow_id for run in runs.values()})
            present = [one for one in batch if one.run_id in runs]
            views = await load_views(connection, runs, present, definitions)
            folded = await self._fold_all(connection, present, views, definitions, keys)
            await self._write(tx, list(folded.values()), keys)
        return [_answers(one, folded, wait=wait) for one in batch]

    async def _fold_all(
        self,
        connection: Connection,
        batch: Sequence[RunEvents],
        views: Mapping[UUID, View],
        definitions: Mapping[int, Definition],
        keys: KeyLocks,
    ) -> dict[UUID, _Folded]:
        folded = {}
        for one in batch:
            view = views[one.run_id]
            folding = _Folded(definitions[view.run.workflow_id], keys, view, view)
            for event in one.events:
                await self._fold(connection, folding, event)
            folded[one.run_id] = folding
        return folded

    async def _fold(self, connection: Connection, folding: _Folded, event: OrgEvent) -> None:
        if event.org != folding.view.run.org:
            folding.answers.append(run_not_found(folding.view.run.run_id))
            return
        try:
            decision = await self._decide(connection, folding, event.event)
        except PerdureError as error:
            folding.answers.append(error)
            return
        folding.view = decision.view
        folding.actions += decision.actions
        folding.answers.append(decision.reply)

    async def _decide(self, connection: Connection, folding: _Folded, event: Event) -> Decision:
        for _ in range(MAX_WIDENINGS):
            try:
                return decide(folding.definition, self._catalogue.lanes, folding.view, event)
            except ViewTooNarrow as narrow:
                more = await load_more(connection, folding.view.run, narrow.wanted, folding.keys)
                folding.loaded = more.added_to(folding.loaded)
                folding.view = more.added_to(folding.view)
        raise RuntimeError(f"a decision on {event} asked for more {MAX_WIDENINGS} times")

    async def _write(self, tx: Transaction, folded: Sequence[_Folded], keys: KeyLocks) -> None:
        changes = [c for one in folded if (c := one.changes()) is not None]
        if changes:
            await write_changes(tx.connection, changes, retention=self._retention)
            await write_mail(tx.connection, changes, keys, retention=self._retention)
            tx.on_commit(lambda: self._committed(changes))


@dataclass(slots=True)
class _Folded:
    """A run while its events are folded; `loaded` is what guards its rows at the write."""

    definition: Definition
    keys: KeyLocks
    loaded: View
    view: View
    actions: list[Action] = field(default_factory=list)
    answers: list[Reply | PerdureError] = field(default_factory=list)

    def changes(self) -> Changes | None:
        return collapse(self.loaded, self.actions)


def run_not_found(run_id: UUID) -> NotFound:
    """Say that the org has no such run; of another org's run the same is said."""
    return NotFound(f"there is no run {run_id}", reason=Reason.RUN_NOT_FOUND)


def _answers(one: RunEvents, folded: Mapping[UUID, _Folded], *, wait: bool) -> Answers | Skipped:
    found = folded.get(one.run_id)
    if found is not None:
        return tuple(found.answers)
    if not wait:
        return Skipped()
    return tuple(run_not_found(one.run_id) for _ in one.events)
