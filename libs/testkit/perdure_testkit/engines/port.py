"""What a test asks of an engine, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from perdure_machine.actions import Instant
from perdure_machine.budgets import Period
from perdure_machine.capacity import Tried
from perdure_machine.events import ChildForgone, ChildRefused, ChildStarted, Event
from perdure_machine.mailbox import SignalState
from perdure_machine.migration import OnPassed, OnRemoved, Refusal, Told
from perdure_machine.replies import ChildUnwanted, ChildWanted, Reply
from perdure_machine.states import TimerKind
from perdure_machine.subjects import EVERY_PURPOSE
from perdure_machine.view import AttemptState, ChildState, EffectState, RunState, StepState
from perdure_runtime.errors import PerdureError

OfChild = ChildStarted | ChildRefused | ChildForgone


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run that a start led to, and whether it was made by it."""

    run_id: UUID
    version: int
    created: bool


@dataclass(frozen=True, slots=True)
class StartOf:
    """A start as a test asks for it."""

    workflow: str
    payload: bytes = b"{}"
    version: int = 0
    start_key: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    begin: Instant | None = None
    signal: SignalState | None = None


@dataclass(frozen=True, slots=True)
class MigrationOf:
    """A migration as a test asks for it; `run_ids` None for all unfinished runs."""

    workflow: str
    from_version: int = 1
    to_version: int = 2
    nodes: Mapping[str, str] = field(default_factory=dict)
    run_ids: tuple[UUID, ...] | None = None
    on_removed: OnRemoved = OnRemoved.REFUSE
    on_passed: OnPassed = OnPassed.REFUSE
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Erased:
    """How far an erasure came: runs to be erased, erased runs, and rows that it found by kind."""

    pending: int
    ended: int
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer of a run, set by a run of `org`; `remaining` seconds until it is due.

    It is infinite while the timer is held.
    """

    timer_id: int
    org: str
    run_id: UUID
    kind: TimerKind
    step: int | None
    remaining: float


@dataclass(frozen=True, slots=True)
class Lease:
    """An acquisition; `timed_out` where it ends at its try's timeout."""

    run_id: UUID
    step: int
    fence: int
    lease_id: UUID
    timed_out: bool


@dataclass(frozen=True, slots=True)
class Undelivered:
    """What a sweep submits `DeliverSignals` for."""

    org: str
    run_id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a run's history."""

    seq: int
    kind: str
    step: int | None
    fence: int | None


@dataclass(frozen=True, slots=True)
class Dead:
    """A dead letter."""

    run_id: UUID
    node: str
    cause: str
    code: str


@dataclass(frozen=True, slots=True)
class Bears:
    """What a connection bears, as an operator says it: see `Settings` of the store."""

    slots: int | None = None
    rate: float | None = None
    burst: float = 1.0
    failures: int = 5
    open_for: float = 30.0


class Engine(Protocol):
    """An engine whose clock a test moves. Times are seconds, errors are raised or returned."""

    async def publish(self, org: str, document: bytes) -> int:
        """Publish a document; return its version."""

    async def start(self, org: str, start: StartOf) -> RunStarted:
        """Start a run. Raises the refusal."""

    async def submit(self, org: str, run_id: UUID, *events: Event) -> list[Reply | PerdureError]:
        """Apply events of one run in one batch; answer each."""

    async def fire(self, timer: Timer) -> Reply:
        """Deliver a timer and do what it asks for; one of no run of its org is deleted."""

    async def answer(self, org: str, asked: ChildWanted | ChildUnwanted) -> OfChild:
        """Do what a parent of `org` asks about its child, without telling it."""

    async def signal(
        self, org: str, signal: SignalState, run_id: UUID | None = None
    ) -> tuple[bool, UUID | None]:
        """Send a signal to a run, or by its key; return whether it is new, and whose it is.

        Raises the refusal.
        """

    async def answer_callback(self, org: str, token: str, signal: SignalState) -> bool:
        """Answer a callback; return whether this is new. Raises the refusal."""

    async def keep_signal(self, org: str, signal: SignalState) -> tuple[bool, UUID | None]:
        """Do the first of the two steps of a signal by key only."""

    async def undelivered(self) -> Sequence[Undelivered]:
        """Return what a sweep delivers."""

    async def signals(self, run_id: UUID) -> Sequence[SignalState]:
        """Return the signals of a run that nobody has taken, the oldest first."""

    async def migrate(self, org: str, asked: MigrationOf) -> Mapping[UUID, tuple[Refusal, ...]]:
        """Migrate runs as asked; return why each of them would stay. Raises the refusal."""

    async def migrations(self, run_id: UUID) -> Sequence[Told]:
        """Return what became of a run in each of its migrations, in their order."""

    async def suppress(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Forbid work about a subject, for one purpose or for every."""

    async def allow(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Take a subject off the list again."""

    async def put_budget(
        self, org: str, name: str, micros: int, period: Period = Period.TOTAL, workflow: str = ""
    ) -> None:
        """Make a budget or change it."""

    async def budget_left(self, org: str, name: str) -> int:
        """Return what is neither spent nor set aside of a budget."""

    async def erase(self, org: str, subject: str) -> UUID:
        """Begin to erase all that is about a subject; return the erasure's id."""

    async def erasure(self, erasure_id: UUID) -> Erased:
        """Tell how far an erasure came."""

    async def renew(self, org: str, lease: Lease) -> float | None:
        """Renew a lease; return the seconds left, None where it is lost."""

    async def advance(self, seconds: float) -> None:
        """Let time pass."""

    async def timers(self) -> Sequence[Timer]:
        """Return all timers."""

    async def queued(self) -> Sequence[tuple[UUID, int]]:
        """Return run and step of everything that a worker may take, in order."""

    async def expired(self) -> Sequence[Lease]:
        """Return the leases that ran out."""

    async def run(self, run_id: UUID) -> RunState:
        """Return a run with its payloads."""

    async def steps(self, run_id: UUID) -> Sequence[StepState]:
        """Return a run's steps with their payloads."""

    async def attempts(self, run_id: UUID) -> Sequence[AttemptState]:
        """Return a run's finished acquisitions, by step and fence."""

    async def effects(self, run_id: UUID) -> Sequence[EffectState]:
        """Return a run's effects."""

    async def decisions(self, run_id: UUID) -> Sequence[tuple[str, str, str]]:
        """Return what people decided about effects of a run: key, decision and actor, in order."""

    async def fail_over(self) -> None:
        """Go on as a database that may have forgotten the latest of what was written."""

    async def raise_epoch(self) -> None:
        """Begin the next epoch on this database."""

    async def declare_lossless(self) -> None:
        """Go on with the epoch on this database."""

    async def trust_failovers(self) -> None:
        """Go on with the epoch on this database, and on every one that it fails over to."""

    async def children(self, run_id: UUID) -> Sequence[ChildState]:
        """Return a run's children, by step."""

    async def history(self, run_id: UUID) -> Sequence[Line]:
        """Return the lines of a run's history."""

    async def dead_letters(self, org: str, code: str | None = None) -> Sequence[Dead]:
        """Return the dead letters of an org, those of the newest runs first."""

    async def replay(self, org: str, code: str | None = None, *, limit: int = 1000) -> int:
        """Have dead letters retried by internal events; return how many."""

    async def put_connection(self, org: str, name: str, bears: Bears) -> None:
        """Make a connection, or let it bear something else."""

    async def repair_connection(self, org: str, name: str) -> None:
        """Say that a connection works again."""

    async def disable_connection(self, org: str, name: str) -> None:
        """Let no step use a connection until it is repaired."""

    async def tell(self, org: str, tried: Tried) -> None:
        """Say of a connection how a try went, as the coordinator does after its report."""

    async def unblock(self) -> None:
        """Let blocked steps go that nothing hinders any more, as the sweeper does."""

    async def mend(self) -> None:
        """Mend what crashes leave of connections and calls outlived, as the sweeper does."""

    async def in_use(self, org: str, name: str) -> int:
        """Return how many places of a limited connection are held."""

    async def is_open(self, org: str, name: str) -> bool:
        """Tell whether a connection's breaker lets nothing through."""

    async def no_way_forward(self) -> Sequence[str]:
        """Return what is stuck (R10)."""
