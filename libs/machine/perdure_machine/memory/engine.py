"""The engine in memory: publish, start, submit events; the caller moves its clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

from perdure_runtime.errors import (
    AlreadyExists,
    FailedPrecondition,
    NotFound,
    PerdureError,
    Reason,
)

from perdure_machine.actions import Instant, SetTimer
from perdure_machine.budgets import BUDGET, Period
from perdure_machine.changes import Changes, collapse
from perdure_machine.decide import Decision, check_start, decide, decide_start
from perdure_machine.decide.callbacks import answer_to, invalid
from perdure_machine.decide.legality import Versions
from perdure_machine.decide.start import new_run
from perdure_machine.definition.inputs import input_with_defaults
from perdure_machine.definition.model import Definition
from perdure_machine.events import (
    AnswerCallback,
    ChildForgone,
    ChildRefused,
    ChildStarted,
    DeliverSignals,
    Emitted,
    Event,
    ExpireLease,
    FireTimer,
    SendSignal,
    Start,
    TellOfChild,
)
from perdure_machine.lanes import Lane
from perdure_machine.mailbox import SignalState
from perdure_machine.memory.budgets import Budgets
from perdure_machine.memory.consent import Suppressions
from perdure_machine.memory.epochs import Epochs
from perdure_machine.memory.erasing import Erasures
from perdure_machine.memory.folding import fold
from perdure_machine.memory.lanes import DEFAULT_LANES
from perdure_machine.memory.lists import DueTimer
from perdure_machine.memory.migrations import checked, chosen, send
from perdure_machine.memory.reads import Reads
from perdure_machine.memory.rows import GuardFailed, RunRow, TimerRow
from perdure_machine.memory.start_keys import StartKeys
from perdure_machine.memory.views import view_of, with_absent_scope
from perdure_machine.memory.workflows import Workflows
from perdure_machine.memory.write import set_timer, write_changes
from perdure_machine.migration import Plan, Refusal
from perdure_machine.node_error import refusal_error
from perdure_machine.replacing import replace
from perdure_machine.replies import (
    ChildUnwanted,
    ChildWanted,
    Closed,
    Emission,
    Reply,
    Signalled,
    Stale,
)
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.view import KeyQueue, RunState, View, Wanted

START = 1_767_225_600.0
"""Where the clock stands at first: 2026-01-01 in UTC, in seconds since 1970."""

RETENTION = 7 * 86_400.0
"""How long a start key outlives its run, in seconds."""


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """Which run it is, and whether this request made it."""

    run_id: UUID
    workflow_version: int
    created: bool


class MemoryEngine(Reads):
    """Runs workflows without a database, for tests.

    `now`, in seconds since 1970, is the only clock; nothing happens by itself. What a worker, the
    timer service and the sweeper do is done by submitting the events that the lists call for.
    """

    def __init__(
        self,
        *,
        now: float = START,
        lanes: Mapping[str, Lane] = DEFAULT_LANES,
        retention: float = RETENTION,
    ) -> None:
        super().__init__(now, lanes, retention)
        self._workflows = Workflows()
        self._keys = StartKeys(retention)
        self.suppressions = Suppressions()
        self.budgets = Budgets()
        self._epochs = Epochs()
        self._run_numbers = count(1)
        self.erasures = Erasures(self._runs, self._post, self._timer_ids)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        before, self.now = self.now, self.now + seconds
        for org, name in self.budgets.begun(before, self.now):
            self.connections.raise_cause(org, BUDGET + name, self.now)
        self._post.drop_expired(self.now)
        self.connections.mend(self.now)

    def publish(self, org: str, document: bytes) -> int:
        """Store a document as its name's next version, unless the latest says the same.

        Returns the version. Raises `DefinitionInvalid`.
        """
        return self._workflows.publish(org, document, self.lanes)

    def start(
        self,
        org: str,
        workflow: str,
        payload: bytes = b"{}",
        *,
        version: int = 0,
        start_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        priority: int = 0,
        begin: Instant | None = None,
        signal: SignalState | None = None,
    ) -> StartAnswer:
        """Start a run of a version, 0 for the latest, with `payload` as its input.

        It begins at once, or at `begin`. It is sent `signal` with its start; so is the run that
        holds the start key already.

        Raises `NotFound` for an unknown workflow, `InvalidArgument` for an input that its schema
        refuses, and `AlreadyExists` where another request has taken the start key.
        """
        event = Start(
            run_id=self._new_run_id(),
            org=org,
            workflow_id=0,
            workflow_version=version,
            input=payload,
            start_key=start_key,
            tags=tags or {},
            priority=priority,
            start=begin,
            signal=signal,
        )
        return self._start(workflow, event)

    def fire(self, due: DueTimer) -> Reply:
        """Deliver a due timer and do what it asks for: start a child, send a signal; tell that."""
        reply = self.submit(due.org, due.run_id, FireTimer(due.timer_id))
        if isinstance(reply, ChildWanted | ChildUnwanted):
            outcome = self.answer_parent(due.org, reply)
            return self.submit(due.org, due.run_id, TellOfChild(due.timer_id, outcome))
        if isinstance(reply, Emission):
            return self._emit(due, reply)
        return reply

    def _emit(self, due: DueTimer, emission: Emission) -> Reply:
        refusal = ""
        try:
            self.signal(due.org, emission.signal, emission.target)
        except PerdureError as error:
            refusal = error.message
        return self.submit(due.org, due.run_id, Emitted(due.timer_id, refusal))

    def answer_parent(
        self, org: str, asked: ChildWanted | ChildUnwanted
    ) -> ChildStarted | ChildRefused | ChildForgone:
        """Do what a parent of `org` asks about its child; it is still to be told."""
        if isinstance(asked, ChildWanted):
            return self._start_child(asked)
        run_id = self._keys.forgo(org, asked.start_key, self.now)
        if run_id is None:
            return ChildForgone()
        return ChildStarted(run_id, self._runs[run_id].state.workflow_version)

    def signal(
        self, org: str, signal: SignalState, run_id: UUID | None = None
    ) -> tuple[bool, UUID | None]:
        """Send a signal to a run, or by its key; return whether it is new, and whose it is.

        Raises `NotFound`, `FailedPrecondition` for a run that ended, and `ResourceExhausted` where
        too many wait.
        """
        if run_id is not None:
            return self._signalled(org, run_id, SendSignal(signal)), run_id
        new, owner = self.keep_signal(org, signal)
        if owner is not None:
            self.submit(org, owner, DeliverSignals(signal.name))
        return new, owner

    def answer_callback(self, org: str, token: str, signal: SignalState) -> bool:
        """Answer a callback; return whether this is new.

        Raises `NotFound` for what is no token of the org, and `FailedPrecondition` where its wait
        has an answer, or the run ended.
        """
        answer = answer_to(token, signal)
        try:
            return self._signalled(org, answer.callback.run_id, answer)
        except NotFound:
            raise invalid() from None

    def keep_signal(self, org: str, signal: SignalState) -> tuple[bool, UUID | None]:
        """Do the first of the two steps of a signal by key: it is stored and not delivered."""
        return self._post.keep(org, replace(signal, seen=False))

    def submit(self, org: str, run_id: UUID, event: Event) -> Reply:
        """Apply one event and return its reply. Raises its refusal."""
        (answer,) = self.submit_all(org, run_id, [event])
        if isinstance(answer, PerdureError):
            raise answer
        return answer

    def submit_all(
        self, org: str, run_id: UUID, events: Sequence[Event]
    ) -> list[Reply | PerdureError]:
        """Apply events of one run in one batch, and answer each; all or none are written."""
        row = self._runs.get(run_id)
        if row is None or row.state.org != org:
            return [_run_not_found(run_id) for _ in events]
        view = replace(
            view_of(row, self.now, self._post.mailbox(row.state)),
            queue=self._queue(row.state),
            suppressed=self.suppressions.of_steps(row),
            erasing=self.erasures.portions(row),
            budgets=self.budgets.of(row.state, self.now),
            epoch=self._epochs.seen_by(row),
        )
        folded = fold(view, events, partial(self._decide, row.definition), self._widen)
        try:
            self._write(row, collapse(view, folded.actions))
        except GuardFailed:
            if len(events) == 1 and isinstance(events[0], ExpireLease):
                return [Stale()]  # the lease was renewed in between (R6)
            raise
        row.blocked |= {step: row.connected[step] for step in folded.blocked}
        return [folded.answers[place] for place in range(len(events))]

    def put_budget(
        self, org: str, name: str, micros: int, period: Period = Period.TOTAL, workflow: str = ""
    ) -> None:
        """Make a budget or change it, and bring back what is parked on it."""
        self.budgets.put(org, name, micros, period, workflow)
        self.connections.raise_cause(org, BUDGET + name, self.now)

    def erase_subject(self, org: str, subject: str) -> UUID:
        """Have every run about a subject erased; return the erasure's id."""
        erasure_id = self._new_run_id()
        self.erasures.begin(erasure_id, org, subject, self.now)
        return erasure_id

    def migrate(
        self,
        org: str,
        workflow: str,
        from_version: int,
        to_version: int,
        *,
        run_ids: Iterable[UUID] | None = None,
        dry_run: bool = False,
        **rules: Any,
    ) -> dict[UUID, tuple[Refusal, ...]]:
        """Have unfinished runs move to another version, all or those of `run_ids`.

        Returns why each would stay, if its turn came now; with `dry_run` that is all it does.
        `rules` are further fields of `Plan`. Raises `NotFound`, and `InvalidArgument` for a map of
        nodes that the two versions cannot have.
        """
        (old, _), (new, _) = (
            self._workflows.resolve(org, workflow, version)
            for version in (from_version, to_version)
        )
        plan = Plan(
            self._new_run_id(), old.workflow_id, from_version, new.workflow_id, to_version, **rules
        )
        versions = Versions(old.definition, new.definition, plan)
        rows = chosen(self._runs.values(), org, versions, run_ids)
        found = checked(rows, versions, self.lanes, self.now)
        if not dry_run:
            send(rows, plan, self.now, self._timer_ids)
        return found

    def fail_over(self) -> None:
        """Go on as a database that may have forgotten the latest of what was written."""
        self._epochs.fail_over()

    def raise_epoch(self) -> None:
        """Let calls begin again: those of unfinished runs may have been made before."""
        self._epochs.begin_next(self.now)

    def declare_lossless(self) -> None:
        """Let calls begin again: nothing was forgotten."""
        self._epochs.is_open = True

    def trust_failovers(self) -> None:
        """Let calls begin after every failover to come: none forgets anything."""
        self._epochs.is_open = self._epochs.lossless = True

    def renew(self, org: str, run_id: UUID, step: int, fence: int, lease_id: UUID) -> float | None:
        """Extend a lease to its lane's length, never past its try's timeout.

        Returns the seconds left, or None where the lease is lost.
        """
        run = self._runs.get(run_id)
        row = run.steps.get(step) if run is not None and run.state.org == org else None
        if row is None or row.state.status is not StepStatus.RUNNING:
            return None
        if (row.state.fence, row.state.lease_id) != (fence, lease_id):
            return None
        if row.try_expires_at is not None and row.try_expires_at <= self.now:
            return None
        expiry = self.now + self.lanes[row.state.lane or ""].lease
        row.lease_expires_at = min(expiry, row.try_expires_at or expiry)
        return row.lease_expires_at - self.now

    def replay_dead_letters(
        self, org: str, workflow: str | None = None, code: str | None = None, *, limit: int = 1000
    ) -> int:
        """Have at most `limit` of what matches now retried, each by an event that is due now."""
        found = self.dead_letters(org, workflow, code)[:limit]
        for letter in found:
            row, number = self._runs[letter.run_id], next(self._timer_ids)
            timer = SetTimer(TimerKind.REPLAY, None, 0.0, row.state.generation, details=b"")
            row.timers[number] = TimerRow(number, org, letter.run_id, timer, self.now)
        return len(found)

    def _decide(self, definition: Definition, view: View, event: Event) -> Decision:
        if isinstance(event, AnswerCallback):
            view = with_absent_scope(view, event.callback.at.place)
        return decide(definition, self.lanes, view, event, self._workflows.definitions)

    def _signalled(self, org: str, run_id: UUID, event: SendSignal | AnswerCallback) -> bool:
        reply = self.submit(org, run_id, event)
        if isinstance(reply, Closed):
            raise FailedPrecondition(f"the run is {reply.status} already", reason=Reason.RUN_CLOSED)
        assert isinstance(reply, Signalled)
        return reply.new

    def _widen(self, view: View, wanted: Wanted) -> View:
        return self.connections.widened(view, wanted, self.now)

    def _new_run_id(self) -> UUID:
        """Return a UUIDv7 of the engine's time; a counter stands where others have random bits."""
        milliseconds = int(self.now * 1000) & 0xFFFFFFFFFFFF
        return UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62 | next(self._run_numbers))

    def _start(self, workflow: str, wanted: Start) -> StartAnswer:
        """Start what is wanted of a version, 0 for the latest, unless its key is taken."""
        tags, when = tuple(sorted(wanted.tags.items())), (wanted.priority, wanted.start)
        asked = (workflow, wanted.workflow_version, wanted.input, tags, *when)
        found, number = self._workflows.resolve(wanted.org, workflow, wanted.workflow_version)
        event = replace(
            wanted,
            workflow_id=found.workflow_id,
            workflow_version=number,
            input=input_with_defaults(found.definition, wanted.input),
        )
        event = check_start(found.definition, self.lanes, event)
        if event.start_key is not None:
            holder = self._keys.claim(event.org, event.start_key, event.run_id, asked, self.now)
            if holder is not None:
                first = self._runs[holder].state
                if event.signal is not None:
                    self.signal(event.org, event.signal, holder)
                return StartAnswer(holder, first.workflow_version, created=False)
        try:
            self._begin(found.definition, event)
        except AlreadyExists:
            self._keys.release(event.org, event.start_key)
            raise
        return StartAnswer(event.run_id, number, created=True)

    def _start_child(self, wanted: ChildWanted) -> ChildStarted | ChildRefused:
        event = Start(
            run_id=self._new_run_id(),
            org=wanted.org,
            workflow_id=0,
            workflow_version=wanted.version,
            input=wanted.input,
            start_key=wanted.start_key,
            priority=wanted.priority,
            traceparent=wanted.traceparent,
            parent=wanted.parent,
            depth=wanted.depth,
        )
        try:
            answer = self._start(wanted.workflow, event)
        except PerdureError as error:
            return ChildRefused(refusal_error(error))
        return ChildStarted(answer.run_id, answer.workflow_version)

    def _begin(self, definition: Definition, event: Start) -> None:
        if event.exclusive_key is not None:
            queue = self._exclusive.queue(event.org, event.exclusive_key, event.run_id)
            event = replace(event, queue=queue)
        mail = self._post.mailbox(new_run(definition, event))
        decision = decide_start(definition, self.lanes, event, mail)
        row = RunRow(decision.view.run, definition, created_at=self.now)
        self._write(row, collapse(None, decision.actions))
        self._runs[event.run_id] = row

    def _queue(self, run: RunState) -> KeyQueue | None:
        if run.exclusive_key is None:
            return None
        return self._exclusive.queue(run.org, run.exclusive_key, run.run_id)

    def _write(self, row: RunRow, changes: Changes | None) -> None:
        if changes is None:
            self.connections.write(row, (), self.now)
            return
        self._post.check(changes)
        write_changes(row, changes, self.now, self._timer_ids)
        self.erasures.write(row, changes, self.now)
        self.budgets.write(row, changes, self.now)
        self._post.write(changes, self.now)
        freed = [(one.step, one.lease_id) for one in changes.freed]
        self.connections.write(row, freed, self.now)
        run = row.state
        self._exclusive.move(run, changes.key_moves)
        if changes.run.reopened:
            self._keys.keep(run.org, run.start_key, run.run_id)
        row.definition = self._workflows.definitions[run.workflow_id]
        if changes.run.ended:
            self._keys.close(run.org, run.start_key, run.run_id, self.now)
        for timer in changes.set_timers:
            receiver = self._runs.get(timer.to) if timer.to is not None else None
            if receiver is not None and receiver.state.org == run.org:
                set_timer(receiver, timer, run.org, self.now, next(self._timer_ids))


def _run_not_found(run_id: UUID) -> NotFound:
    return NotFound(f"there is no run {run_id}", reason=Reason.RUN_NOT_FOUND)
