"""The rows of the engine in memory: what the tables of the database hold. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from perdure_runtime.errors import Aborted, Reason

from perdure_machine.actions import (
    PutDeadLetter,
    PutSubject,
    RecordAttempt,
    RecordDecision,
    RecordHistory,
    SetTimer,
)
from perdure_machine.budgets import CostState, Spending
from perdure_machine.definition.model import Definition
from perdure_machine.migration import Told
from perdure_machine.places import At, Place
from perdure_machine.replacing import replace
from perdure_machine.states import ENDED, RunLimit, StepStatus
from perdure_machine.view import (
    BlockState,
    ChildState,
    EffectState,
    RunState,
    ScopeState,
    StepState,
)


class GuardFailed(Aborted):
    """A row was not in the state that the decision saw; nothing was written."""

    def __init__(self, guard: str) -> None:
        super().__init__(f"{guard} was not as the decision saw it", reason=Reason.RETRY)


@dataclass(slots=True)
class StepRow:
    """A step, and the instants that its lease, its try and itself end."""

    state: StepState
    created_at: float
    lease_expires_at: float | None = None
    try_expires_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None

    def has_run_out(self, now: float, *, timed_out: bool) -> bool:
        """Tell whether the lease ran out, at its try's timeout or before it as `timed_out` says."""
        return (
            self.lease_expires_at is not None
            and self.lease_expires_at <= now
            and timed_out == self.at_timeout
        )

    @property
    def at_timeout(self) -> bool:
        """Whether the lease ends with the try's timeout."""
        return (
            self.lease_expires_at is not None
            and self.try_expires_at is not None
            and self.lease_expires_at >= self.try_expires_at
        )


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A finished acquisition."""

    record: RecordAttempt
    started_at: float
    ended_at: float


@dataclass(slots=True)
class EffectRow:
    """An effect, its first call, when it was settled, and when its lease ends."""

    state: EffectState
    begun_at: float
    settled_at: float | None = None
    lease_expires_at: float | None = None

    def at(self, now: float) -> EffectState:
        """Return the effect as a decision sees it."""
        call, expiry = self.state.call, self.lease_expires_at
        if call is not None:
            call = replace(call, lease_left=None if expiry is None else expiry - now)
        return replace(self.state, age=now - self.begun_at, call=call)


@dataclass(frozen=True, slots=True)
class TimerRow:
    """A timer of a run."""

    timer_id: int
    org: str
    run_id: UUID
    timer: SetTimer
    due_at: float
    held: bool = False  # came due in a pause


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A line of the history."""

    line: RecordHistory
    at: float


@dataclass(slots=True)
class RunRow:
    """A run and all that hangs on it; `outbox` holds the steps that wait for a worker."""

    state: RunState
    definition: Definition
    created_at: float
    ended_at: float | None = None
    start_at: float | None = None
    limits: dict[RunLimit, float] = field(default_factory=dict)  # instants
    steps: dict[int, StepRow] = field(default_factory=dict)
    activated: set[At] = field(default_factory=set)
    attempts: list[AttemptRow] = field(default_factory=list)
    effects: dict[str, EffectRow] = field(default_factory=dict)
    timers: dict[int, TimerRow] = field(default_factory=dict)
    scopes: dict[Place, ScopeState] = field(default_factory=dict)
    blocks: dict[int, BlockState] = field(default_factory=dict)
    children: dict[int, ChildState] = field(default_factory=dict)
    outbox: set[int] = field(default_factory=set)
    connected: dict[int, str] = field(default_factory=dict)  # the connections of queued steps
    connections: dict[int, str] = field(default_factory=dict)  # what expressions gave
    blocked: dict[int, str] = field(default_factory=dict)  # queued steps, and on what
    dead_letter: PutDeadLetter | None = None
    history: list[HistoryRow] = field(default_factory=list)
    migrations: dict[UUID, Told] = field(default_factory=dict)
    subjects: dict[int, PutSubject] = field(default_factory=dict)
    costs: dict[int, CostState] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    decisions: list[RecordDecision] = field(default_factory=list)

    def passed(self, now: float) -> frozenset[RunLimit]:
        """Return the limits that the run is past."""
        return frozenset(limit for limit, at in self.limits.items() if at <= now)

    def unfinished(self, *, running: bool) -> list[int]:
        """Return the numbers of the steps that have not ended, with or without the running ones."""
        return [
            number
            for number, row in sorted(self.steps.items())
            if row.state.status not in ENDED
            and (running or row.state.status is not StepStatus.RUNNING)
        ]
