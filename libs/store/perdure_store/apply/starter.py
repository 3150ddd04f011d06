"""Starts a batch of runs in one transaction: version, input, key, first steps (protocol p7)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import msgspec
from perdure_machine.actions import Instant
from perdure_machine.changes import Changes, collapse
from perdure_machine.decide import check_start, decide_start
from perdure_machine.decide.first_step import start_plainly
from perdure_machine.decide.start import new_run
from perdure_machine.definition.inputs import input_with_defaults
from perdure_machine.definition.model import Definition
from perdure_machine.events import Start
from perdure_machine.mailbox import Mailbox, SignalState
from perdure_machine.replacing import replace
from perdure_machine.subjects import NO_KEY, SubjectKey
from perdure_machine.view import Parent, ViewTooNarrow
from perdure_runtime import fail_points
from perdure_runtime.errors import (
    Aborted,
    AlreadyExists,
    NotFound,
    PerdureError,
    Reason,
)

from perdure_store.apply.batch import MAX_WIDENINGS, Committed
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.consent import write_subjects
from perdure_store.apply.hand_overs import RememberedRuns
from perdure_store.apply.keys import KeyLocks, OrgKey, in_key_order
from perdure_store.apply.mail import load_more_mail, write_mail
from perdure_store.apply.parting import together_or_apart
from perdure_store.apply.plain_starts import is_written_plainly, write_plain_starts
from perdure_store.apply.run_ids import RunIds
from perdure_store.apply.spending import write_spending
from perdure_store.apply.turns import Turns, release_start_keys
from perdure_store.apply.write import write_changes
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import Transaction, transaction

COMMIT_STARTS = fail_points.declare("store.commit_starts")


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A start as it was asked for; `version` 0 is the latest at the moment of the start.

    `start` is when the run is to begin, None for at once. `signal` is sent to the new run; the
    caller sends it to the run that holds the key already.
    """

    org: str
    workflow: str
    version: int
    input: bytes
    start_key: str | None
    tags: Mapping[str, str]
    priority: int
    traceparent: str | None
    parent: Parent | None = None
    depth: int = 0
    start: Instant | None = None
    signal: SignalState | None = None

    def digest(self) -> bytes:
        """Return the SHA-256 of what makes the request this one and no other (p7)."""
        asked = [self.workflow, self.version, self.input, sorted(self.tags.items()), self.priority]
        if self.start is not None:
            asked.append((self.start.after, self.start.at))
        return hashlib.sha256(msgspec.msgpack.encode(asked)).digest()


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """Which run it is, and whether this request made it."""

    run_id: UUID
    workflow_version: int
    created: bool


StartOutcome = StartAnswer | PerdureError


class Starter:
    """Starts runs; `retention`, `committed` and `subjects` as for `Applier`.

    Of runs that begin with one queued step, `remembered` is told.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        run_ids: RunIds,
        *,
        retention: float,
        committed: Committed,
        subjects: SubjectKey = NO_KEY,
        remembered: RememberedRuns | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._remembered = remembered or RememberedRuns(0)
        self._subjects = subjects
        self._run_ids = run_ids
        self._retention = retention
        self._committed = committed

    async def start(
        self, connection: Connection, requests: Sequence[StartRequest]
    ) -> list[StartOutcome]:
        """Start what can be started and answer each request in order.

        A refused request stores nothing and does not hinder the others. Raises Unavailable when
        the database cannot be used.
        """
        return await together_or_apart(
            requests,
            lambda some: in_key_order(partial(self._start_all, connection, some)),
            what="start",
        )

    async def _start_all(
        self,
        connection: Connection,
        requests: Sequence[StartRequest],
        first: frozenset[OrgKey],
    ) -> list[StartOutcome]:
        return await self._catalogue.complete(
            connection, lambda: self._start_once(connection, requests, first)
        )

    async def _start_once(
        self,
        connection: Connection,
        requests: Sequence[StartRequest],
        first: frozenset[OrgKey],
    ) -> list[StartOutcome]:
        async with transaction(connection, COMMIT_STARTS) as tx:
            outcomes, starts = await self._prepare(connection, requests)
            turns = Turns(starts[place].event for place in starts)
            await turns.lock(connection)
            keys = KeyLocks(connection)
            await keys.lock(first)
            keys.close()  # before start keys: an event that ends runs writes these last (R14)
            mine = await _claim_keys(connection, requests, starts)
            await turns.load(connection)
            wanted = {place: starts[place] for place in mine}
            decided = await self._decide(connection, wanted, turns, keys)
            await release_start_keys(connection, [starts[place].event for place in decided.refused])
            await self._write(tx, decided)
            await turns.tidy(connection)
            outcomes |= await _first_runs(connection, requests, starts.keys() - mine)
        for place in (*decided.plain, *decided.others):
            event = starts[place].event
            outcomes[place] = StartAnswer(event.run_id, event.workflow_version, created=True)
        outcomes |= decided.refused
        return [outcomes[place] for place in range(len(requests))]

    async def _prepare(
        self, connection: Connection, requests: Sequence[StartRequest]
    ) -> tuple[dict[int, StartOutcome], dict[int, _Prepared]]:
        """Resolve versions and check inputs before anything is stored."""
        resolved = await connection.fetch(
            sql("catalogue.resolve"),
            [one.org for one in requests],
            [one.workflow for one in requests],
            [one.version for one in requests],
        )
        found = {row["workflow_id"] for row in resolved if row["workflow_id"] is not None}
        definitions = self._catalogue.definitions(found)
        outcomes: dict[int, StartOutcome] = {}
        starts: dict[int, _Prepared] = {}
        for place, (request, row) in enumerate(zip(requests, resolved, strict=True)):
            if row["workflow_id"] is None:
                outcomes[place] = _unknown_workflow(request)
                continue
            try:
                starts[place] = self._prepared(
                    request, definitions[row["workflow_id"]], row["workflow_id"], row["version"]
                )
            except PerdureError as error:
                outcomes[place] = error
        return outcomes, starts

    def _prepared(
        self, request: StartRequest, definition: Definition, workflow_id: int, version: int
    ) -> _Prepared:
        event = Start(
            run_id=self._run_ids.next(),
            org=request.org,
            workflow_id=workflow_id,
            workflow_version=version,
            input=input_with_defaults(definition, request.input),
            start_key=request.start_key,
            tags=request.tags,
            priority=request.priority,
            traceparent=request.traceparent,
            parent=request.parent,
            depth=request.depth,
            start=request.start,
            signal=request.signal,
        )
        return _Prepared(definition, check_start(definition, self._catalogue.lanes, event))

    async def _decide(
        self,
        connection: Connection,
        starts: Mapping[int, _Prepared],
        turns: Turns,
        keys: KeyLocks,
    ) -> _Decided:
        """Decide in order, because each finds what those before it did to its exclusive key."""
        decided = _Decided()
        for place, start in starts.items():
            plain = start_plainly(start.definition, start.event)
            if plain is not None:
                kept = decided.plain if is_written_plainly(plain) else decided.others
                kept[place] = plain
                continue
            in_turn = replace(start, event=turns.with_queue(start.event))
            try:
                changes = await self._changes(connection, in_turn, keys)
            except AlreadyExists as error:
                decided.refused[place] = error
                continue
            turns.note(changes)
            decided.others[place] = changes
        return decided

    async def _write(self, tx: Transaction, decided: _Decided) -> None:
        plain, others = list(decided.plain.values()), list(decided.others.values())
        if plain:
            now_ms = await write_plain_starts(tx.connection, plain)
        if others:
            now_ms = await self._write_others(tx.connection, others)
        if changes := [*plain, *others]:
            tx.on_commit(lambda: self._run_ids.learn(now_ms))
            tx.on_commit(lambda: self._committed(changes))
            tx.on_commit(lambda: self._remember(changes))

    async def _write_others(self, connection: Connection, changes: Sequence[Changes]) -> int:
        now_ms = await write_changes(connection, changes, retention=self._retention)
        await write_mail(connection, changes, retention=self._retention)
        await write_subjects(connection, changes, self._subjects)
        await write_spending(connection, changes)
        return now_ms

    def _remember(self, changes: Sequence[Changes]) -> None:
        for one in changes:
            if len(one.enqueue) == 1:
                self._remembered.note(one.run.run, one.enqueue[0])

    async def _changes(self, connection: Connection, start: _Prepared, keys: KeyLocks) -> Changes:
        mail = Mailbox()
        for _ in range(MAX_WIDENINGS):
            try:
                decision = decide_start(start.definition, self._catalogue.lanes, start.event, mail)
            except ViewTooNarrow as narrow:
                run = new_run(start.definition, start.event)
                more = await load_more_mail(connection, run, narrow.wanted, keys)
                mail = more.added_to(mail)
                continue
            changes = collapse(None, decision.actions)
            assert changes is not None
            return changes
        raise RuntimeError(f"a start of {start.definition.name} asked for more and more")


@dataclass(frozen=True, slots=True)
class _Prepared:
    definition: Definition
    event: Start


@dataclass(slots=True)
class _Decided:
    """The starts of a batch by place: those with a statement of their own, others, refused."""

    plain: dict[int, Changes] = field(default_factory=dict)
    others: dict[int, Changes] = field(default_factory=dict)
    refused: dict[int, StartOutcome] = field(default_factory=dict)


async def _claim_keys(
    connection: Connection,
    requests: Sequence[StartRequest],
    starts: Mapping[int, _Prepared],
) -> list[int]:
    """Claim start keys in key order (R14); return the places that start."""
    keyed = [place for place in starts if requests[place].start_key is not None]
    if not keyed:
        return list(starts)
    claims = _first_of_each_key(requests, keyed)
    claimed = await connection.fetch(
        sql("starts.claim_keys"),
        [org for org, _, _ in claims],
        [key for _, key, _ in claims],
        [starts[place].event.run_id for _, _, place in claims],
        [requests[place].digest() for _, _, place in claims],
    )
    won = {row["run_id"] for row in claimed}
    lost = {place for place in keyed if starts[place].event.run_id not in won}
    return [place for place in starts if place not in lost]


def _first_of_each_key(
    requests: Sequence[StartRequest], places: Sequence[int]
) -> list[tuple[str, str, int]]:
    first: dict[tuple[str, str], int] = {}
    for place in places:
        first.setdefault((requests[place].org, requests[place].start_key or ""), place)
    return sorted((org, key, place) for (org, key), place in first.items())


async def _first_runs(
    connection: Connection, requests: Sequence[StartRequest], lost: Collection[int]
) -> dict[int, StartOutcome]:
    """Answer with the run that holds the key; read in a later statement than the claim (p7).

    Also later than the write, because the holder may have been started by this batch.
    """
    if not lost:
        return {}
    rows = await connection.fetch(
        sql("starts.holders"),
        [requests[place].org for place in lost],
        [requests[place].start_key for place in lost],
    )
    holders = {(row["org"], row["start_key"]): row for row in rows}
    outcomes: dict[int, StartOutcome] = {}
    for place in lost:
        request = requests[place]
        holder = holders.get((request.org, request.start_key))
        if holder is None:
            outcomes[place] = _refused_with_first(request)
            continue
        outcomes[place] = (
            StartAnswer(holder["run_id"], holder["workflow_version"], created=False)
            if holder["digest"] == request.digest()
            else _key_taken(request, holder["run_id"])
        )
    return outcomes


def _refused_with_first(request: StartRequest) -> PerdureError:
    """Say that the first start of the batch under this key was refused: try again."""
    return Aborted(f"the start key `{request.start_key}` was given back", reason=Reason.RETRY)


def _unknown_workflow(request: StartRequest) -> NotFound:
    version = f" version {request.version}" if request.version else ""
    return NotFound(
        f"there is no workflow `{request.workflow}`{version}", reason=Reason.WORKFLOW_NOT_FOUND
    )


def _key_taken(request: StartRequest, run_id: UUID) -> AlreadyExists:
    return AlreadyExists(
        f"the start key `{request.start_key}` belongs to run {run_id}, started by another request",
        reason=Reason.RUN_ALREADY_STARTED,
        metadata={"run_id": str(run_id)},
    )
