"""The port over PostgreSQL: the code that the coordinator runs, under the coordinator's role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID, uuid4

import asyncpg
from perdure_machine.budgets import Period
from perdure_machine.changes import Changes
from perdure_machine.decide.callbacks import answer_to, invalid
from perdure_machine.events import (
    AnswerCallback,
    ChildForgone,
    ChildStarted,
    DeliverSignals,
    Emitted,
    Event,
    ExpireLease,
    FireTimer,
    SendSignal,
    TellOfChild,
)
from perdure_machine.mailbox import SignalState
from perdure_machine.migration import Plan, Refusal, Told
from perdure_machine.node_error import decode_error
from perdure_machine.replies import (
    Applied,
    ChildUnwanted,
    ChildWanted,
    Closed,
    Emission,
    Reply,
    Signalled,
    Stale,
)
from perdure_machine.states import TimerKind
from perdure_machine.subjects import EVERY_PURPOSE, SubjectKey
from perdure_machine.view import AttemptState, ChildState, EffectState, RunState, StepState
from perdure_runtime.errors import FailedPrecondition, NotFound, PerdureError, Reason
from perdure_store import budgets, causes, erasures, run_migrations
from perdure_store.apply.applier import REMEMBERED_RUNS, Applier
from perdure_store.apply.batch import OrgEvent, RunEvents, Skipped
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.child_starts import answer_parent, forgo_child
from perdure_store.apply.children import load_children
from perdure_store.apply.hand_overs import RememberedRuns
from perdure_store.apply.rows import (
    attempt_state,
    run_state,
    step_state,
    whole_effect_state,
)
from perdure_store.apply.run_ids import RunIds
from perdure_store.apply.starter import Starter, StartOutcome, StartRequest
from perdure_store.apply.write import GuardFailed
from perdure_store.catalogue import publish_workflow
from perdure_store.dead_letters import DeadLetterFilter, list_dead_letters, replay_later
from perdure_store.epochs import trust_failovers
from perdure_store.leases import HeldLease, Renewal, renew_leases
from perdure_store.signals import KeyedSignal, drop_signals, keep_signals, undelivered
from perdure_store.suppressions import Suppression, add_suppression, remove_suppression
from perdure_store.sweeps import expired_leases
from perdure_store.timers import drop_orphans

from perdure_testkit.database import Database
from perdure_testkit.engines.asking import run_started, start_request
from perdure_testkit.engines.port import (
    Dead,
    Erased,
    Lease,
    Line,
    MigrationOf,
    OfChild,
    RunStarted,
    StartOf,
    Timer,
    Undelivered,
)
from perdure_testkit.engines.postgres_connections import ConnectionsPort
from perdure_testkit.engines.postgres_sql import (
    ADVANCE,
    CLEAR,
    DECISIONS,
    EFFECTS,
    MIGRATIONS,
    NEXT_EPOCH,
    RUN,
    SIGNALS,
    STEPS,
    TIMERS,
)

RETENTION = 7 * 86_400.0
"""How long a start key outlives its run, in seconds."""


SUBJECT_KEY = SubjectKey(b"a key of tests, of no less than 32 bytes")
EVER = 1e9
"""Seconds that are longer than any lane's lease."""


class PostgresPort(ConnectionsPort):
    """One coordinator's store code as an `Engine`; `committed` is what it told after commits."""

    def __init__(
        self, database: Database, admin: asyncpg.Connection, coordinator: asyncpg.Connection
    ) -> None:
        self._database = database
        self.admin = admin
        self.coordinator = coordinator
        self.committed: list[Changes] = []
        self._catalogue, self._run_ids = Catalogue(), RunIds()
        self.remember(REMEMBERED_RUNS)

    def remember(self, runs: int) -> None:
        """Remember as many written runs from now on; with 0 every event is decided on a load."""
        remembered = RememberedRuns(runs)
        self.applier = Applier(
            self._catalogue,
            retention=RETENTION,
            committed=self.committed.extend,
            subjects=SUBJECT_KEY,
            remembered=remembered,
        )
        self.starter = Starter(
            self._catalogue,
            self._run_ids,
            retention=RETENTION,
            committed=self.committed.extend,
            subjects=SUBJECT_KEY,
            remembered=remembered,
        )

    @classmethod
    async def open(cls, database: Database, orgs: Iterable[str] = ()) -> PostgresPort:
        """Return an engine on `database` with two connections of its own, and add `orgs`."""
        admin, coordinator = await database.connect(), await database.connect("coordinator")
        port = cls(database, admin, coordinator)
        await port._run_ids.synchronise(port.coordinator)
        for org in orgs:
            await port.admin.execute("INSERT INTO orgs (org) VALUES ($1)", org)
        return port

    async def clear(self) -> None:
        """Remove every run; what was published stays, as it never changes.

        A connection that a failed test broke is opened again.
        """
        if self.admin.is_closed():
            self.admin = await self._database.connect()
        if self.coordinator.is_closed():
            self.coordinator = await self._database.connect("coordinator")
        await self.admin.execute(CLEAR)
        await trust_failovers(self.admin, lossless=False, actor="ann", reason="")
        self.committed.clear()

    async def publish(self, org: str, document: bytes) -> int:
        """Publish a document; return its version."""
        return (await publish_workflow(self.coordinator, org, document)).version

    async def start(self, org: str, start: StartOf) -> RunStarted:
        """Start a run. Raises the refusal."""
        (outcome,) = await self.starter.start(self.coordinator, [start_request(org, start)])
        if isinstance(outcome, PerdureError):
            raise outcome
        if start.signal is not None and not outcome.created:
            await self.signal(org, start.signal, outcome.run_id)
        return run_started(outcome)

    async def submit(self, org: str, run_id: UUID, *events: Event) -> list[Reply | PerdureError]:
        """Apply events of one run in one batch; answer each."""
        batch = [RunEvents(run_id, tuple(OrgEvent(org, event) for event in events))]
        try:
            (answers,) = await self.applier.apply(self.coordinator, batch, wait=True)
        except GuardFailed:
            if len(events) == 1 and isinstance(events[0], ExpireLease):
                return [Stale()]  # as the coordinator answers it
            raise
        assert not isinstance(answers, Skipped)
        return list(answers)

    async def fire(self, timer: Timer) -> Reply:
        """Deliver a timer and do what it asks for; one of no run of its org is deleted."""
        reply = await self._submit_one(timer.org, timer.run_id, FireTimer(timer.timer_id))
        if isinstance(reply, NotFound):
            cursor = timer.org, timer.run_id, timer.timer_id
            if await causes.go_on(self.coordinator, *cursor) or await budgets.go_on(
                self.coordinator, *cursor
            ):
                return Applied()
            await drop_orphans(self.coordinator, [timer.timer_id])
            return Stale()
        if isinstance(reply, ChildWanted | ChildUnwanted):
            told = TellOfChild(timer.timer_id, await self.answer(timer.org, reply))
            reply = await self._submit_one(timer.org, timer.run_id, told)
        if isinstance(reply, Emission):
            refusal = await self._emit(timer.org, reply)
            told_so = Emitted(timer.timer_id, refusal)
            reply = await self._submit_one(timer.org, timer.run_id, told_so)
        if isinstance(reply, PerdureError):
            raise reply
        return reply

    async def answer(self, org: str, asked: ChildWanted | ChildUnwanted) -> OfChild:
        """Do what a parent of `org` asks about its child, without telling it."""
        return await answer_parent(org, asked, self._start, self._forgo)

    async def _emit(self, org: str, emission: Emission) -> str:
        """Send what a run emits; return why it was refused, if it was."""
        try:
            await self.signal(org, emission.signal, emission.target)
        except PerdureError as error:
            return error.message
        return ""

    async def _submit_one(self, org: str, run_id: UUID, event: Event) -> Reply | PerdureError:
        (answer,) = await self.submit(org, run_id, event)
        return answer

    async def _start(self, request: StartRequest) -> StartOutcome:
        (outcome,) = await self.starter.start(self.coordinator, [request])
        return outcome

    async def _forgo(self, org: str, start_key: str) -> ChildStarted | ChildForgone:
        return await forgo_child(self.coordinator, org, start_key, retention=RETENTION)

    async def signal(
        self, org: str, signal: SignalState, run_id: UUID | None = None
    ) -> tuple[bool, UUID | None]:
        """Send a signal to a run, or by its key; return whether it is new, and whose it is."""
        if run_id is None:
            new, owner = await self.keep_signal(org, signal)
            if owner is not None:
                await self.submit(org, owner, DeliverSignals(signal.name))
            return new, owner
        return await self._signalled(org, run_id, SendSignal(signal)), run_id

    async def answer_callback(self, org: str, token: str, signal: SignalState) -> bool:
        """Answer a callback; return whether this is new."""
        answer = answer_to(token, signal)
        try:
            return await self._signalled(org, answer.callback.run_id, answer)
        except NotFound:
            raise invalid() from None

    async def _signalled(self, org: str, run_id: UUID, event: SendSignal | AnswerCallback) -> bool:
        (answer,) = await self.submit(org, run_id, event)
        if isinstance(answer, PerdureError):
            raise answer
        if isinstance(answer, Closed):
            raise FailedPrecondition(f"the run is {answer.status}", reason=Reason.RUN_CLOSED)
        assert isinstance(answer, Signalled)
        return answer.new

    async def keep_signal(self, org: str, signal: SignalState) -> tuple[bool, UUID | None]:
        """Do the first of the two steps of a signal by key only."""
        (kept,) = await keep_signals(
            self.coordinator, [KeyedSignal(org, signal)], patience=RETENTION
        )
        if isinstance(kept, PerdureError):
            raise kept
        return kept.new, kept.run_id

    async def undelivered(self) -> Sequence[Undelivered]:
        """Return what a sweep delivers."""
        found = await undelivered(self.admin, None, limit=10_000, older_than=0.0)
        return [Undelivered(one.org, one.run_id, one.name) for one in found]

    async def signals(self, run_id: UUID) -> Sequence[SignalState]:
        """Return the signals of a run that nobody has taken, the oldest first."""
        await drop_signals(self.admin, limit=10_000)
        rows = await self.admin.fetch(SIGNALS, run_id)
        return [SignalState(**row) for row in rows]

    async def migrate(self, org: str, asked: MigrationOf) -> Mapping[UUID, tuple[Refusal, ...]]:
        """Migrate runs as asked; return why each of them would stay. Raises the refusal."""
        versions = (asked.from_version, asked.to_version)
        from_id, to_id = await run_migrations.resolve(
            self.coordinator, org, asked.workflow, versions
        )
        plan = Plan(
            uuid4(), from_id, asked.from_version, to_id, asked.to_version, asked.nodes,
            asked.on_removed, asked.on_passed,
        )  # fmt: skip
        migration = run_migrations.Asked(org, asked.workflow, plan, asked.run_ids)
        await run_migrations.check_plan(self.coordinator, self._catalogue, plan)
        found = await run_migrations.check_runs(
            self.coordinator, self._catalogue, migration, after=run_migrations.FIRST, limit=1_000
        )
        if not asked.dry_run:
            await run_migrations.create(self.coordinator, migration)
            await self._send_all(org, plan.migration_id)
        return dict(found)

    async def _send_all(self, org: str, migration_id: UUID) -> None:
        """Deliver what goes on with a migration until each run has its event."""
        query = "SELECT timer_id FROM timers WHERE run_id = $1"
        while (timer_id := await self.admin.fetchval(query, migration_id)) is not None:
            assert await run_migrations.go_on(self.coordinator, org, migration_id, timer_id)

    async def migrations(self, run_id: UUID) -> Sequence[Told]:
        """Return what became of a run in each of its migrations, in their order."""
        rows = await self.admin.fetch(MIGRATIONS, run_id)
        found = []
        for row in rows:
            ((_, told),) = await run_migrations.read_outcomes(
                self.admin, row["migration_id"], "", after=UUID(int=run_id.int - 1), limit=1
            )
            found.append(told)
        return found

    async def suppress(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Forbid work about a subject, for one purpose or for every."""
        await add_suppression(self.coordinator, suppression(org, subject, purpose))

    async def allow(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Take a subject off the list again."""
        await remove_suppression(self.coordinator, suppression(org, subject, purpose))

    async def put_budget(
        self, org: str, name: str, micros: int, period: Period = Period.TOTAL, workflow: str = ""
    ) -> None:
        """Make a budget or change it."""
        asked = budgets.BudgetAsked(org, name, workflow, micros, period, "EUR", "test")
        await budgets.put_budget(self.coordinator, asked)

    async def budget_left(self, org: str, name: str) -> int:
        """Return what is neither spent nor set aside of a budget."""
        (found,) = await budgets.list_budgets(self.admin, org, name)
        return found.micros - found.spent - found.reserved

    async def erase(self, org: str, subject: str) -> UUID:
        """Begin to erase all that is about a subject; return the erasure's id."""
        asked = erasures.Asked(uuid4(), org, SUBJECT_KEY.hash(org, subject), "", "test")
        await erasures.create(self.coordinator, asked)
        query = "SELECT timer_id FROM timers WHERE run_id = $1"
        while (timer_id := await self.admin.fetchval(query, asked.erasure_id)) is not None:
            assert await erasures.go_on(self.coordinator, org, asked.erasure_id, timer_id)
        return asked.erasure_id

    async def erasure(self, erasure_id: UUID) -> Erased:
        """Tell how far an erasure came."""
        org = await self.admin.fetchval(
            "SELECT org FROM erasures WHERE erasure_id = $1", erasure_id
        )
        found = await erasures.read(self.admin, org, erasure_id)
        assert found is not None
        return Erased(found.pending, found.erased, found.counts)

    async def renew(self, org: str, lease: Lease) -> float | None:
        """Renew a lease; return the seconds left, None where it is lost."""
        held = HeldLease(org, lease.run_id, lease.step, lease.fence, lease.lease_id)
        (answer,) = await renew_leases(self.coordinator, [held])
        assert answer.renewal is not Renewal.AGAIN
        return answer.lease_left if answer.renewal is Renewal.RENEWED else None

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        for statement in ADVANCE.split(";"):
            await self.admin.execute(statement, seconds)

    async def timers(self) -> Sequence[Timer]:
        """Return all timers."""
        return [
            Timer(**{**row, "kind": TimerKind(row["kind"])})
            for row in await self.admin.fetch(TIMERS)
        ]

    async def queued(self) -> Sequence[tuple[UUID, int]]:
        """Return run and step of everything that waits for a worker, in order."""
        rows = await self.admin.fetch(
            "SELECT run_id, step FROM outbox WHERE state <> 'blocked' ORDER BY run_id, step"
        )
        return [(row["run_id"], row["step"]) for row in rows]

    async def expired(self) -> Sequence[Lease]:
        """Return the leases that ran out."""
        found = await expired_leases(self.admin, None, limit=10_000, well_for=EVER)
        return [Lease(e.run_id, e.step, e.fence, e.lease_id, e.timed_out) for e in found]

    async def run(self, run_id: UUID) -> RunState:
        """Return a run with its payloads."""
        row = await self.admin.fetchrow(RUN, run_id)
        assert row is not None
        error = decode_error(row["error"]) if row["error"] is not None else None
        return replace(run_state(row), input=row["input"], output=row["output"], error=error)

    async def steps(self, run_id: UUID) -> Sequence[StepState]:
        """Return a run's steps with their payloads."""
        return [step_state(row) for row in await self.admin.fetch(STEPS, run_id)]

    async def attempts(self, run_id: UUID) -> Sequence[AttemptState]:
        """Return a run's finished acquisitions, by step and fence."""
        rows = await self.admin.fetch(
            "SELECT * FROM attempts WHERE run_id = $1 ORDER BY step, fence", run_id
        )
        return [attempt_state(row) for row in rows]

    async def effects(self, run_id: UUID) -> Sequence[EffectState]:
        """Return a run's effects."""
        return [whole_effect_state(row) for row in await self.admin.fetch(EFFECTS, run_id)]

    async def decisions(self, run_id: UUID) -> Sequence[tuple[str, str, str]]:
        """Return what people decided about effects of a run: key, decision and actor, in order."""
        rows = await self.admin.fetch(DECISIONS, run_id)
        return [(row["key"], row["decision"], row["actor"]) for row in rows]

    async def fail_over(self) -> None:
        """Go on as a database that may have forgotten the latest of what was written."""
        await self.admin.execute("UPDATE epochs SET timeline = timeline - 1")

    async def raise_epoch(self) -> None:
        """Begin the next epoch on this database."""
        await self.admin.execute(NEXT_EPOCH)

    async def declare_lossless(self) -> None:
        """Go on with the epoch on this database."""
        await self.admin.execute("UPDATE epochs SET timeline = database_timeline()")

    async def trust_failovers(self) -> None:
        """Go on with the epoch on this database, and on every one that it fails over to."""
        await trust_failovers(self.admin, lossless=True, actor="ann", reason="")

    async def children(self, run_id: UUID) -> Sequence[ChildState]:
        """Return a run's children, by step."""
        steps = [(run_id, step.step) for step in await self.steps(run_id)]
        found = await load_children(self.admin, steps)
        return [child for _, child in sorted(found.get(run_id, {}).items())]

    async def history(self, run_id: UUID) -> Sequence[Line]:
        """Return the lines of a run's history."""
        rows = await self.admin.fetch(
            "SELECT seq, kind, step, fence FROM history WHERE run_id = $1 ORDER BY seq", run_id
        )
        return [Line(row["seq"], row["kind"], row["step"], row["fence"]) for row in rows]

    async def dead_letters(self, org: str, code: str | None = None) -> Sequence[Dead]:
        """Return the dead letters of an org, those of the newest runs first."""
        wanted = DeadLetterFilter(code=code)
        found = await list_dead_letters(self.admin, org, wanted, below=None, limit=10_000)
        return [
            Dead(one.run_id, one.node, one.cause, decode_error(one.error).code) for one in found
        ]

    async def replay(self, org: str, code: str | None = None, *, limit: int = 1000) -> int:
        """Have dead letters retried by internal events; return how many."""
        wanted = DeadLetterFilter(code=code)
        replayed, _ = await replay_later(self.coordinator, org, wanted, limit=limit, reason="")
        return replayed

    async def no_way_forward(self) -> Sequence[str]:
        """Return what is stuck (R10)."""
        rows = await self.admin.fetch("SELECT run_id, step, missing FROM no_way_forward")
        return [f"run {row['run_id']} step {row['step']}: {row['missing']}" for row in rows]


def suppression(org: str, subject: str, purpose: str = EVERY_PURPOSE) -> Suppression:
    """Return an entry of a list, asked for by a test."""
    return Suppression(org, SUBJECT_KEY.hash(org, subject), purpose, "", "test")
