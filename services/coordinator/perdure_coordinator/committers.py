"""Group commit: while one transaction is in flight the next events gather (design P1).

A run belongs to one committer of this process, so its events meet in one batch and are folded in
order. A run that another process holds leaves the batch and waits on a connection of its own, so
that it delays nobody else (protocol p1, step 2). Plain cases of remembered runs, which are most
events and wait for nobody, meet in batches of their own, as large as they can be (P4).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID
from weakref import WeakValueDictionary

import asyncpg
from google.protobuf.message import Message
from perdure_machine.events import Event, ExpireLease
from perdure_machine.replies import Reply, Stale
from perdure_runtime.batching import Batcher
from perdure_runtime.clock import Clock
from perdure_runtime.errors import Aborted, Internal, PerdureError, Reason, Unavailable
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log_failure
from perdure_runtime.metrics import SIZE_BUCKETS, counter, histogram
from perdure_store.apply.applier import Applier
from perdure_store.apply.batch import Answers, Meanwhile, OrgEvent, Plain, RunEvents, Skipped
from perdure_store.apply.write import GuardFailed
from perdure_store.held import HeldConnection
from perdure_store.pool import Connection, acquire

RESERVED = 2
"""Spare connections that runs held elsewhere leave to others."""

TIMER_LANES = 2
"""Batches of timers at once: while the database writes one, the other is decided."""

BATCH_EVENTS = histogram(
    "coordinator_batch_events", "Events in one transaction.", buckets=SIZE_BUCKETS
)
SKIPPED_RUNS = counter("coordinator_skipped_runs_total", "Runs that left a batch, held elsewhere.")
SPLIT_BATCHES = counter("coordinator_split_batches_total", "Batches that failed and were split.")

_logger = logging.getLogger(__name__)

Answer = Reply | PerdureError

PlainlyApplied = Callable[
    [Connection, Sequence[RunEvents], Meanwhile], Awaitable[Mapping[UUID, Plain]]
]
"""Applies what is plain of a batch, and returns it."""

Prepare = Callable[[Plain], Message | None]
"""Makes the message that tells of what was decided."""

Submission = tuple[UUID, str, Event]
"""A run, the org that the sender acts for, and what happens to the run."""


class HeldElsewhere(Aborted):
    """Somebody else holds the run; the event may still be applied, and may be sent again."""

    def __init__(self) -> None:
        super().__init__("the run is being changed elsewhere", reason=Reason.RETRY)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What became of a plain event, and the message that tells it."""

    reply: Reply
    message: Message | None


@dataclass(frozen=True, slots=True)
class _Submitted:
    run_id: UUID
    event: OrgEvent


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where an event's answer is: in its run's answers, now or when the run had its turn."""

    answers: Answers | asyncio.Task[Answers]
    place: int

    async def answer(self, patience: float | None) -> Answer:
        answers = self.answers
        if isinstance(answers, asyncio.Task):
            done, _ = await asyncio.wait({answers}, timeout=patience)
            if not done:
                return HeldElsewhere()
            answers = answers.result()
        return answers[self.place]


class Committers(Component):
    """Applies events, each where its run's other events of this process are applied.

    `count` transactions are under way at once, each of at most `max_batch` events. `prepare` is
    called for plain events while the database writes them.
    """

    def __init__(
        self,
        applier: Applier,
        url: str,
        spare: asyncpg.Pool,
        clock: Clock,
        *,
        count: int,
        max_batch: int,
        prepare: Prepare,
    ) -> None:
        super().__init__()
        self._prepare = prepare
        self._applier = applier
        self._spare = spare
        self._held = [
            HeldConnection(url, clock, application_name="perdure-coordinator") for _ in range(count)
        ]
        self._batchers = [
            Batcher[_Submitted, _Placed](partial(self._commit, held), max_batch)
            for held in self._held
        ]
        self._plainly = HeldConnection(url, clock, application_name="perdure-coordinator-plain")
        self._plain = Batcher[_Submitted, Prepared | None](
            partial(self._commit_plainly, self._plainly, applier.apply_plainly), max_batch
        )
        self._timed = [
            HeldConnection(url, clock, application_name="perdure-coordinator-timers")
            for _ in range(TIMER_LANES)
        ]
        self._timers = [
            Batcher[_Submitted, Prepared | None](
                partial(self._commit_plainly, held, applier.apply_waits), max_batch
            )
            for held in self._timed
        ]
        self._alone: set[asyncio.Task[Answers]] = set()
        self._turns: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()
        self._room = asyncio.Semaphore(max(1, spare.get_max_size() - RESERVED))

    async def on_start(self) -> None:
        """Take events from now on."""
        await self._plain.start()
        for timers in self._timers:
            await timers.start()
        for batcher in self._batchers:
            await batcher.start()

    async def on_stop(self) -> None:
        """Finish what was taken, then close the connections."""
        await self._plain.stop()
        for timers in self._timers:
            await timers.stop()
        for batcher in self._batchers:
            await batcher.stop()
        if self._alone:
            await asyncio.wait(self._alone)
        for held in (self._plainly, *self._timed, *self._held):
            await held.close()

    async def submit(
        self, run_id: UUID, org: str, event: Event, *, patience: float | None = None
    ) -> Reply:
        """Apply one event and return its reply.

        A run that somebody else holds is waited for `patience` seconds, None for as long as it
        takes; its event is applied all the same. Raises the event's refusal, or Unavailable or
        Aborted when it may be sent again.
        """
        submitted = _Submitted(run_id, OrgEvent(org, event))
        if self._applier.remembers(run_id):
            prepared = await self._plain.submit(submitted)
            if prepared is not None:
                return prepared.reply
        batcher = self._batchers[run_id.int % len(self._batchers)]
        placed = await batcher.submit(submitted)
        answer = await placed.answer(patience)
        if isinstance(answer, PerdureError):
            raise answer
        return answer

    async def submit_plain(
        self, submissions: Sequence[Submission]
    ) -> list[Prepared | PerdureError | None]:
        """Apply those that are plain, in one batch, and answer in order.

        None stands for what is not plain, and is to be submitted by itself.
        """
        waiting = [
            self._plain.put(_Submitted(one[0], OrgEvent(one[1], one[2])))
            if self._applier.remembers(one[0])
            else None
            for one in submissions
        ]
        return [None if one is None else await _answer(one) for one in waiting]

    async def submit_timers(self, submissions: Sequence[Submission]) -> list[Answer | None]:
        """Apply the timers that plainly end their runs, and answer in order, as `submit_plain`."""
        waiting = [
            self._timers[run_id.int % TIMER_LANES].put(_Submitted(run_id, OrgEvent(org, event)))
            for run_id, org, event in submissions
        ]
        answers = [await _answer(one) for one in waiting]
        return [one.reply if isinstance(one, Prepared) else one for one in answers]

    async def _commit_plainly(
        self, held: HeldConnection, apply: PlainlyApplied, batch: list[_Submitted]
    ) -> list[Prepared | None]:
        """Apply what is plain; None stands for what the run's committer is to take."""
        prepared: dict[UUID, Prepared] = {}

        def prepare(decided: Mapping[UUID, Plain]) -> None:
            for run_id, one in decided.items():
                prepared[run_id] = Prepared(one.reply, self._prepare(one))

        connection = await held.get()
        try:
            done = await apply(connection, _grouped(batch), prepare)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the committer tells the sender what is wrong
            log_failure(_logger, "events.not_plain", error)
            return [None] * len(batch)
        BATCH_EVENTS.observe(len(done))
        return [prepared[one.run_id] if one.run_id in done else None for one in batch]

    async def _commit(self, held: HeldConnection, batch: list[_Submitted]) -> list[_Placed]:
        BATCH_EVENTS.observe(len(batch))
        groups = _grouped(batch)
        connection = await held.get()
        outcomes = await self._apply(connection, groups)
        answers = {
            group.run_id: self._wait_alone(group) if isinstance(outcome, Skipped) else outcome
            for group, outcome in zip(groups, outcomes, strict=True)
        }
        return _placed(batch, answers)

    async def _apply(
        self, connection: Connection, groups: Sequence[RunEvents], *, wait: bool = False
    ) -> list[Answers | Skipped]:
        """Apply groups together, or one by one when together they fail (protocol p1, step 5)."""
        try:
            return await self._applier.apply(connection, groups, wait=wait)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - told to the sender by _refusal
            smaller = _split(groups)
            if not smaller:
                return [(_refusal(error, groups[0].events[0].event),)]
            SPLIT_BATCHES.inc()
            parts = [(await self._apply(connection, [part], wait=wait))[0] for part in smaller]
            return parts if len(groups) > 1 else [_joined(parts)]

    def _wait_alone(self, group: RunEvents) -> asyncio.Task[Answers]:
        SKIPPED_RUNS.inc()
        task = asyncio.create_task(self._apply_alone(group))
        self._alone.add(task)
        task.add_done_callback(self._alone.discard)
        return task

    async def _apply_alone(self, group: RunEvents) -> Answers:
        # Repeats of what a run is late with take turns, so that it holds one connection at most.
        turn = self._turns.setdefault(group.run_id, asyncio.Lock())
        try:
            async with turn, self._room, acquire(self._spare) as connection:
                (outcome,) = await self._apply(connection, [group], wait=True)
        except PerdureError as error:
            return tuple(error for _ in group.events)
        return _joined([outcome])


async def _answer(
    waiting: asyncio.Future[Prepared | None],
) -> Prepared | PerdureError | None:
    try:
        return await waiting
    except PerdureError as error:
        return error


def _grouped(batch: Sequence[_Submitted]) -> list[RunEvents]:
    events: dict[UUID, list[OrgEvent]] = {}
    for one in batch:
        events.setdefault(one.run_id, []).append(one.event)
    return [RunEvents(run_id, tuple(found)) for run_id, found in events.items()]


def _placed(
    batch: Sequence[_Submitted], answers: Mapping[UUID, Answers | asyncio.Task[Answers]]
) -> list[_Placed]:
    seen: Counter[UUID] = Counter()
    placed = []
    for one in batch:
        placed.append(_Placed(answers[one.run_id], seen[one.run_id]))
        seen[one.run_id] += 1
    return placed


def _split(groups: Sequence[RunEvents]) -> list[RunEvents]:
    """Return smaller parts: runs of a batch, else events of a run; none of a single event."""
    if len(groups) > 1:
        return list(groups)
    (group,) = groups
    if len(group.events) == 1:
        return []
    return [RunEvents(group.run_id, (event,)) for event in group.events]


def _joined(parts: Sequence[Answers | Skipped]) -> Answers:
    """Join answers to parts of one run's events; what found the run held may be sent again."""
    joined: list[Answer] = []
    for part in parts:
        joined += (HeldElsewhere(),) if isinstance(part, Skipped) else part
    return tuple(joined)


def _refusal(error: Exception, event: Event) -> Answer:
    """Return what the sender of a single failed event is told."""
    if isinstance(error, GuardFailed) and isinstance(event, ExpireLease):
        return Stale()  # the lease was renewed in between (R6)
    if isinstance(error, PerdureError):
        return error
    log_failure(_logger, "event.failed", error)
    kind = type(error).__name__
    return Internal(f"the event could not be applied ({kind})", reason=Reason.INTERNAL)
