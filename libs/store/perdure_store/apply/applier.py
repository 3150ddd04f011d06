"""Applies a batch of events to runs in one transaction: lock, load, decide, write (protocol p1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.actions import Action
from perdure_machine.capacity import Wish
from perdure_machine.changes import Changes, collapse
from perdure_machine.decide import Decision, decide
from perdure_machine.definition.model import Definition
from perdure_machine.events import Acquire, Event
from perdure_machine.migration_events import in_turn, migrated_just_now, targets
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Blocked, Granted, Reply
from perdure_machine.subjects import NO_KEY, SubjectKey
from perdure_machine.view import KeyQueue, RunState, StepState, View, ViewTooNarrow
from perdure_runtime import fail_points
from perdure_runtime.errors import Aborted, NotFound, PerdureError, Reason

from perdure_store.apply.batch import (
    MAX_WIDENINGS,
    Answers,
    Committed,
    Meanwhile,
    OrgEvent,
    Plain,
    PlainlyWritten,
    RunEvents,
    Skipped,
)
from perdure_store.apply.beside import Beside
from perdure_store.apply.capacity import Acquisition, Asked, CapacityNotTaken, Places
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.consent import write_subjects
from perdure_store.apply.erasing import write_erasures
from perdure_store.apply.exclusive import Key, KeysNotLocked, load_queues, lock_keys
from perdure_store.apply.hand_overs import RememberedRuns
from perdure_store.apply.keys import KeyLocks, OrgKey, in_key_order
from perdure_store.apply.load import load_more, load_views, lock_runs
from perdure_store.apply.mail import hold_ended, write_mail
from perdure_store.apply.plain import decide_plainly, held_after, write_plainly
from perdure_store.apply.spending import (
    BudgetsNotLocked,
    OrgWorkflow,
    Purse,
    await_periods,
    write_spending,
)
from perdure_store.apply.waits import decide_waits
from perdure_store.apply.write import write_changes
from perdure_store.apply.write_capacity import block_rows
from perdure_store.causes import CausesMissing, make_causes
from perdure_store.pool import Connection
from perdure_store.transaction import Transaction, transaction

COMMIT_EVENTS = fail_points.declare("store.commit_events")

REMEMBERED_RUNS = 10_000
"""Runs that are remembered where nothing else is said."""


def _tell_nobody(_written: Collection[Plain]) -> None:
    """Do nothing about what was written."""


def _do_nothing(_decided: Mapping[UUID, Plain]) -> None:
    """Prepare nothing while it is written."""


@dataclass(slots=True)
class _Ahead:
    """What a batch has turned out to need before any run is locked (R14)."""

    exclusive: set[Key] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)
    budgets: set[OrgWorkflow] = field(default_factory=set)


class Applier:
    """Applies events to runs that exist.

    `retention` is how long a start key outlives its run, in seconds; `committed` is called with
    what was written, after the commit (R2). `subjects` is the key under which subjects are hashed.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        retention: float,
        committed: Committed,
        plainly_written: PlainlyWritten = _tell_nobody,
        subjects: SubjectKey = NO_KEY,
        remembered: RememberedRuns | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._remembered = remembered or RememberedRuns(REMEMBERED_RUNS)
        self._plainly_written = plainly_written
        self._subjects = subjects
        self._retention = retention
        self._committed = committed

    async def apply(
        self, connection: Connection, batch: Sequence[RunEvents], *, wait: bool
    ) -> list[Answers | Skipped]:
        """Apply the events of distinct runs and answer each run in order.

        The plain cases of remembered runs are applied first, the others all or none. Without `wait`
        a run that somebody else holds is `Skipped`. Raises `GuardFailed` where a row was not as the
        decision saw it, and what the database raises; what was applied then is a repeat (R5).
        """
        plain = await self.apply_plainly(connection, batch)
        others = [one for one in batch if one.run_id not in plain]
        answers = iter(await self._apply_all(connection, others, wait=wait) if others else ())
        return [
            (plain[one.run_id].reply,) if one.run_id in plain else next(answers) for one in batch
        ]

    def remembers(self, run_id: UUID) -> bool:
        """Tell whether an event of the run may be plain."""
        return self._remembered.has(run_id)

    async def apply_plainly(
        self,
        connection: Connection,
        batch: Sequence[RunEvents],
        meanwhile: Meanwhile = _do_nothing,
    ) -> dict[UUID, Plain]:
        """Apply the plain cases of remembered runs, and return these; nobody is waited for.

        Raises what the database raises; what was applied then is a repeat (R5).
        """
        decided = decide_plainly(self._remembered, self._catalogue, batch)
        return await self._write_plainly(connection, decided, meanwhile)

    async def apply_waits(
        self,
        connection: Connection,
        batch: Sequence[RunEvents],
        meanwhile: Meanwhile = _do_nothing,
    ) -> dict[UUID, Plain]:
        """Apply the timers that plainly end their runs, and return these; nobody is waited for.

        Raises what the database raises; what was applied then is a repeat (R5).
        """
        if not self._remembered.remembers_any:
            return {}
        decided = await decide_waits(connection, self._catalogue, batch)
        return await self._write_plainly(connection, decided, meanwhile)

    async def _write_plainly(
        self, connection: Connection, decided: Mapping[UUID, Plain], meanwhile: Meanwhile
    ) -> dict[UUID, Plain]:
        if not decided:
            return {}

        def remember() -> None:
            for one in decided.values():
                self._remembered.note(one.run, held_after(one))
            meanwhile(decided)

        beside = Beside(remember)
        try:
            written = await write_plainly(connection, decided, retention=self._retention)
        finally:
            beside.end()
        for run_id in decided.keys() - written.keys():
            self._remembered.take(run_id)
        if written:
            self._plainly_written(written.values())
        return written

    async def _apply_all(
        self, connection: Connection, batch: Sequence[RunEvents], *, wait: bool
    ) -> list[Answers | Skipped]:
        ahead = _Ahead()

        async def attempt(first: frozenset[OrgKey]) -> list[Answers | Skipped]:
            return await self._catalogue.complete(
                connection, lambda: self._apply_once(connection, batch, ahead, first, wait=wait)
            )

        while True:
            try:
                return await in_key_order(attempt)
            except KeysNotLocked as missing:
                ahead.exclusive.add(missing.key)
            except CapacityNotTaken as missing:
                ahead.asked.append(missing.wanted)
            except BudgetsNotLocked as missing:
                ahead.budgets.add(missing.whose)
            except CausesMissing as missing:
                await make_causes(connection, missing.org, missing.causes)

    async def _apply_once(
        self,
        connection: Connection,
        batch: Sequence[RunEvents],
        ahead: _Ahead,
        first: frozenset[OrgKey],
        *,
        wait: bool,
    ) -> list[Answers | Skipped]:
        async with transaction(connection, COMMIT_EVENTS) as tx:
            await lock_keys(connection, ahead.exclusive)
            places, purse = Places(connection), Purse(ahead.budgets)
            acquisitions = _acquisitions(batch, ahead.asked)
            await places.reserve([*ahead.asked, *await places.find(acquisitions)])
            await purse.lock(connection)
            runs = await lock_runs(connection, [one.run_id for one in batch], wait=wait)
            keys = KeyLocks(connection)
            await keys.lock(first)
            definitions = self._catalogue.definitions({run.workflow_id for run in runs.values()})
            present = [one for one in batch if one.run_id in runs]
            views = await load_views(connection, runs, present, definitions)
            views = {
                run_id: replace(view, reservations=found) if (found := places.of(run_id)) else view
                for run_id, view in views.items()
            }
            leads_to = {one for view in views.values() for one in targets(view)}
            definitions = self._catalogue.definitions(leads_to)
            exclusive = dict.fromkeys(ahead.exclusive)
            folder = _Folder(self._catalogue, connection, keys, places, purse, exclusive)
            folded = await folder.fold_all(present, views, definitions)
            await self._write(tx, list(folded.values()), keys)
            await places.write({run_id: one.view for run_id, one in folded.items()})
            await block_rows(connection, list(_blocked(present, folded)))
            tx.on_commit(lambda: self._remember(folded.values()))
        return [_answers(one, folded, wait=wait) for one in batch]

    def _remember(self, folded: Iterable[_Folded]) -> None:
        for one in folded:
            self._remembered.note(one.view.run, one.leased())

    async def _write(self, tx: Transaction, folded: Sequence[_Folded], keys: KeyLocks) -> None:
        changes = [c for one in folded if (c := one.changes()) is not None]
        if changes:
            await hold_ended(changes, keys)
            await write_changes(tx.connection, changes, retention=self._retention)
            await write_mail(tx.connection, changes, retention=self._retention)
            await write_subjects(tx.connection, changes, self._subjects)
            await write_erasures(tx.connection, changes)
            await write_spending(tx.connection, changes)
            await await_periods(tx.connection, changes)
            tx.on_commit(lambda: self._committed(changes))


class _Folder:
    """Folds the events of one transaction; `exclusive` are the keys of runs that it has locked.

    Each is moved by one run at most, because what a run finds is read before any other's write.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        connection: Connection,
        keys: KeyLocks,
        places: Places,
        purse: Purse,
        exclusive: dict[Key, UUID | None],
    ) -> None:
        self._purse = purse
        self._catalogue = catalogue
        self._connection = connection
        self._keys = keys
        self._places = places
        self._exclusive = exclusive

    async def fold_all(
        self,
        batch: Sequence[RunEvents],
        views: Mapping[UUID, View],
        definitions: Mapping[int, Definition],
    ) -> dict[UUID, _Folded]:
        """Return what the events of each run come to. Raises `KeysNotLocked`."""
        folded = {}
        for one in batch:
            view = views[one.run_id]
            folding = _Folded(definitions, self._keys, view, view)
            for place in in_turn(view, [event.event for event in one.events]):
                folding.answers[place] = await self._fold(folding, one.events[place])
            folded[one.run_id] = folding
        return folded

    async def _fold(self, folding: _Folded, event: OrgEvent) -> Reply | PerdureError:
        run = folding.view.run
        if event.org != run.org:
            return run_not_found(run.run_id)
        if run.workflow_id != folding.loaded.run.workflow_id:
            return migrated_just_now(run.run_id)
        try:
            decision = await self._decide(folding, event.event)
        except PerdureError as error:
            return error
        folding.view = decision.view
        folding.actions += decision.actions
        self._purse.note(run.org, decision.actions)
        return decision.reply

    async def _decide(self, folding: _Folded, event: Event) -> Decision:
        definition = folding.definitions[folding.loaded.run.workflow_id]
        lanes = self._catalogue.lanes
        for _ in range(MAX_WIDENINGS):
            try:
                return decide(definition, lanes, folding.view, event, folding.definitions)
            except ViewTooNarrow as narrow:
                if narrow.wanted.capacity:
                    await self._reserve(folding, narrow.wanted.capacity)
                    continue
                more = await load_more(
                    self._connection, folding.view.run, narrow.wanted, folding.keys
                )
                folding.loaded = more.added_to(folding.loaded)
                folding.view = more.added_to(folding.view)
                if narrow.wanted.budgets:
                    budgets = self._purse.of(folding.view.run)
                    folding.view = replace(folding.view, budgets=budgets)
                if narrow.wanted.queue:
                    queue = await self._queue(folding.view.run)
                    folding.view = replace(folding.view, queue=queue)
        raise RuntimeError(f"a decision on {event} asked for more {MAX_WIDENINGS} times")

    async def _reserve(self, folding: _Folded, wishes: Collection[Wish]) -> None:
        run = folding.view.run
        for wish in wishes:
            asked = Asked.by(run.run_id, run.org, wish)
            if not wish.chained:
                raise CapacityNotTaken(asked)
            await self._places.reserve([asked], wait=False)
        folding.view = replace(folding.view, reservations=self._places.of(run.run_id))

    async def _queue(self, run: RunState) -> KeyQueue:
        key = (run.org, run.exclusive_key or "")
        if key not in self._exclusive:
            raise KeysNotLocked(key)
        if self._exclusive[key] not in (None, run.run_id):
            raise Aborted("another run of this batch moves the key", reason=Reason.RETRY)
        self._exclusive[key] = run.run_id
        return (await load_queues(self._connection, {run.run_id: key}))[run.run_id]


@dataclass(slots=True)
class _Folded:
    """A run while its events are folded; `loaded` is what guards its rows at the write."""

    definitions: Mapping[int, Definition]
    keys: KeyLocks
    loaded: View
    view: View
    actions: list[Action] = field(default_factory=list)
    answers: dict[int, Reply | PerdureError] = field(default_factory=dict)

    def changes(self) -> Changes | None:
        return collapse(self.loaded, self.actions)

    def leased(self) -> StepState | None:
        """Return the step that the last of the answers hands out, as all events left it."""
        number = None
        for answer in self.answers.values():
            match answer:
                case Granted(step=step) | Applied(next=Granted(step=step)):
                    number = step.step
        return None if number is None else self.view.steps[number]


def run_not_found(run_id: UUID) -> NotFound:
    """Say that the org has no such run; of another org's run the same is said."""
    return NotFound(f"there is no run {run_id}", reason=Reason.RUN_NOT_FOUND)


def _acquisitions(batch: Sequence[RunEvents], asked: Sequence[Asked]) -> Iterator[Acquisition]:
    """Yield the acquisitions that take capacity, as their messages said, and are not asked for."""
    known = {(one.run_id, one.step, one.lease_id) for one in asked}
    for one in batch:
        for event in (each.event for each in one.events):
            if isinstance(event, Acquire) and event.capacity:
                acquisition = (one.run_id, event.step, event.lease_id)
                if acquisition not in known:
                    yield acquisition


def _blocked(
    batch: Sequence[RunEvents], folded: Mapping[UUID, _Folded]
) -> Iterator[tuple[UUID, int]]:
    for one in batch:
        for place, answer in folded[one.run_id].answers.items():
            event = one.events[place].event
            if isinstance(answer, Blocked) and isinstance(event, Acquire):
                yield one.run_id, event.step


def _answers(one: RunEvents, folded: Mapping[UUID, _Folded], *, wait: bool) -> Answers | Skipped:
    found = folded.get(one.run_id)
    if found is not None:
        return tuple(found.answers[place] for place in range(len(one.events)))
    if not wait:
        return Skipped()
    return tuple(run_not_found(one.run_id) for _ in one.events)
