"""The port over the engine in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from uuid import UUID

from perdure_machine.budgets import Period
from perdure_machine.capacity import Tried
from perdure_machine.events import Event
from perdure_machine.mailbox import SignalState
from perdure_machine.memory import DueTimer, MemoryEngine
from perdure_machine.memory.connections import Limits
from perdure_machine.migration import Refusal, Told
from perdure_machine.replies import ChildUnwanted, ChildWanted, Reply
from perdure_machine.subjects import EVERY_PURPOSE
from perdure_machine.view import AttemptState, ChildState, EffectState, RunState, StepState
from perdure_runtime.errors import PerdureError

from perdure_testkit.engines.port import (
    Bears,
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


class MemoryPort:
    """A `MemoryEngine` as an `Engine`."""

    def __init__(self, engine: MemoryEngine | None = None) -> None:
        self.engine = engine or MemoryEngine()

    async def publish(self, org: str, document: bytes) -> int:
        """Publish a document; return its version."""
        return self.engine.publish(org, document)

    async def start(self, org: str, start: StartOf) -> RunStarted:
        """Start a run. Raises the refusal."""
        answer = self.engine.start(
            org,
            start.workflow,
            start.payload,
            version=start.version,
            start_key=start.start_key,
            tags=start.tags,
            priority=start.priority,
            begin=start.begin,
            signal=start.signal,
        )
        return RunStarted(answer.run_id, answer.workflow_version, answer.created)

    async def submit(self, org: str, run_id: UUID, *events: Event) -> list[Reply | PerdureError]:
        """Apply events of one run in one batch; answer each."""
        return self.engine.submit_all(org, run_id, events)

    async def fire(self, timer: Timer) -> Reply:
        """Deliver a timer and do what it asks for."""
        return self.engine.fire(DueTimer(timer.org, timer.run_id, timer.timer_id))

    async def answer(self, org: str, asked: ChildWanted | ChildUnwanted) -> OfChild:
        """Do what a parent of `org` asks about its child, without telling it."""
        return self.engine.answer_parent(org, asked)

    async def signal(
        self, org: str, signal: SignalState, run_id: UUID | None = None
    ) -> tuple[bool, UUID | None]:
        """Send a signal to a run, or by its key; return whether it is new, and whose it is."""
        return self.engine.signal(org, signal, run_id)

    async def answer_callback(self, org: str, token: str, signal: SignalState) -> bool:
        """Answer a callback; return whether this is new. Raises the refusal."""
        return self.engine.answer_callback(org, token, signal)

    async def keep_signal(self, org: str, signal: SignalState) -> tuple[bool, UUID | None]:
        """Do the first of the two steps of a signal by key only."""
        return self.engine.keep_signal(org, signal)

    async def undelivered(self) -> Sequence[Undelivered]:
        """Return what a sweep delivers."""
        found = self.engine.undelivered_signals()
        return [Undelivered(one.org, one.run_id, one.name) for one in found]

    async def signals(self, run_id: UUID) -> Sequence[SignalState]:
        """Return the signals of a run that nobody has taken, the oldest first."""
        return self.engine.signals(run_id)

    async def migrate(self, org: str, asked: MigrationOf) -> Mapping[UUID, tuple[Refusal, ...]]:
        """Migrate runs as asked; return why each of them would stay. Raises the refusal."""
        return self.engine.migrate(
            org,
            asked.workflow,
            asked.from_version,
            asked.to_version,
            run_ids=asked.run_ids,
            dry_run=asked.dry_run,
            nodes=asked.nodes,
            on_removed=asked.on_removed,
            on_passed=asked.on_passed,
        )

    async def migrations(self, run_id: UUID) -> Sequence[Told]:
        """Return what became of a run in each of its migrations, in their order."""
        return self.engine.migrations(run_id)

    async def suppress(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Forbid work about a subject, for one purpose or for every."""
        self.engine.suppressions.add(org, subject, purpose)

    async def allow(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Take a subject off the list again."""
        self.engine.suppressions.remove(org, subject, purpose)

    async def put_budget(
        self, org: str, name: str, micros: int, period: Period = Period.TOTAL, workflow: str = ""
    ) -> None:
        """Make a budget or change it."""
        self.engine.put_budget(org, name, micros, period, workflow)

    async def budget_left(self, org: str, name: str) -> int:
        """Return what is neither spent nor set aside of a budget."""
        return self.engine.budgets.left(org, name, self.engine.now)

    async def erase(self, org: str, subject: str) -> UUID:
        """Begin to erase all that is about a subject; return the erasure's id."""
        return self.engine.erase_subject(org, subject)

    async def erasure(self, erasure_id: UUID) -> Erased:
        """Tell how far an erasure came."""
        told = self.engine.erasures.told(erasure_id)
        rows = {kind: count for kind, count in told.rows.items() if count}
        return Erased(told.pending, told.ended, rows)

    async def renew(self, org: str, lease: Lease) -> float | None:
        """Renew a lease; return the seconds left, None where it is lost."""
        return self.engine.renew(org, lease.run_id, lease.step, lease.fence, lease.lease_id)

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.engine.advance(seconds)

    async def timers(self) -> Sequence[Timer]:
        """Return all timers."""
        return [
            Timer(
                timer_id=one.timer_id,
                org=one.org,
                run_id=one.run_id,
                kind=one.timer.kind,
                step=one.timer.step,
                remaining=inf if one.held else one.due_at - self.engine.now,
            )
            for one in self.engine.timers()
        ]

    async def queued(self) -> Sequence[tuple[UUID, int]]:
        """Return run and step of everything that waits for a worker, in order."""
        return [(one.run_id, one.step) for one in self.engine.queued_steps()]

    async def expired(self) -> Sequence[Lease]:
        """Return the leases that ran out."""
        return [
            Lease(one.run_id, one.step, one.fence, one.lease_id, one.timed_out)
            for one in self.engine.expired_leases()
        ]

    async def run(self, run_id: UUID) -> RunState:
        """Return a run with its payloads."""
        return self.engine.run(run_id)

    async def steps(self, run_id: UUID) -> Sequence[StepState]:
        """Return a run's steps with their payloads."""
        return [replace(step, lease_left=None) for step in self.engine.steps(run_id)]

    async def attempts(self, run_id: UUID) -> Sequence[AttemptState]:
        """Return a run's finished acquisitions, by step and fence."""
        return sorted(self.engine.attempts(run_id), key=lambda one: (one.step, one.fence))

    async def effects(self, run_id: UUID) -> Sequence[EffectState]:
        """Return a run's effects."""
        return self.engine.effects(run_id)

    async def decisions(self, run_id: UUID) -> Sequence[tuple[str, str, str]]:
        """Return what people decided about effects of a run: key, decision and actor, in order."""
        return [(one.key, one.decision, one.actor) for one in self.engine.decisions(run_id)]

    async def fail_over(self) -> None:
        """Go on as a database that may have forgotten the latest of what was written."""
        self.engine.fail_over()

    async def raise_epoch(self) -> None:
        """Begin the next epoch on this database."""
        self.engine.raise_epoch()

    async def declare_lossless(self) -> None:
        """Go on with the epoch on this database."""
        self.engine.declare_lossless()

    async def trust_failovers(self) -> None:
        """Go on with the epoch on this database, and on every one that it fails over to."""
        self.engine.trust_failovers()

    async def children(self, run_id: UUID) -> Sequence[ChildState]:
        """Return a run's children, by step."""
        return self.engine.children(run_id)

    async def history(self, run_id: UUID) -> Sequence[Line]:
        """Return the lines of a run's history."""
        return [Line(one.seq, one.kind, one.step, one.fence) for one in self.engine.history(run_id)]

    async def dead_letters(self, org: str, code: str | None = None) -> Sequence[Dead]:
        """Return the dead letters of an org, those of the newest runs first."""
        found = reversed(self.engine.dead_letters(org, code=code))
        return [Dead(one.run_id, one.node, one.cause, one.error.code) for one in found]

    async def replay(self, org: str, code: str | None = None, *, limit: int = 1000) -> int:
        """Have dead letters retried by internal events; return how many."""
        return self.engine.replay_dead_letters(org, code=code, limit=limit)

    async def put_connection(self, org: str, name: str, bears: Bears) -> None:
        """Make a connection, or let it bear something else."""
        limits = Limits(bears.slots, bears.rate, bears.burst, bears.failures, bears.open_for)
        self.engine.connections.put(org, name, limits, self.engine.now)

    async def repair_connection(self, org: str, name: str) -> None:
        """Say that a connection works again."""
        self.engine.connections.repair(org, name, self.engine.now)

    async def disable_connection(self, org: str, name: str) -> None:
        """Let no step use a connection until it is repaired."""
        self.engine.connections.disable(org, name, self.engine.now)

    async def tell(self, org: str, tried: Tried) -> None:
        """Say of a connection how a try went."""
        self.engine.connections.tell(org, tried, self.engine.now)

    async def unblock(self) -> None:
        """Let blocked steps go that nothing hinders any more."""
        self.engine.connections.unblock(self.engine.now)

    async def mend(self) -> None:
        """Give back places that nothing holds any more."""
        self.engine.connections.mend(self.engine.now)

    async def in_use(self, org: str, name: str) -> int:
        """Return how many places of a limited connection are held."""
        return self.engine.connections.in_use(org, name)

    async def is_open(self, org: str, name: str) -> bool:
        """Tell whether a connection's breaker lets nothing through."""
        return self.engine.connections.is_open(org, name, self.engine.now)

    async def no_way_forward(self) -> Sequence[str]:
        """Return what is stuck (R10)."""
        return [
            f"run {one.run_id} step {one.step}: {one.missing}"
            for one in self.engine.no_way_forward()
        ]
