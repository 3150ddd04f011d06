"""What a decision wants written, as values. Durations are seconds; SQL adds its clock (R7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from perdure_machine.erasure import Place
from perdure_machine.mailbox import Address, SignalState, WaitState
from perdure_machine.migration import Told
from perdure_machine.replacing import quickly_made
from perdure_machine.states import AttemptOutcome, DeadCause, RunLimit, TimerKind
from perdure_machine.view import (
    BlockState,
    ChildState,
    EffectState,
    NodeError,
    RunState,
    ScopeState,
    StepState,
)


@dataclass(frozen=True, slots=True)
class Instant:
    """A time: `at` seconds since 1970, or `after` seconds from the write where `at` is None."""

    after: float = 0.0
    at: float | None = None


@dataclass(frozen=True, slots=True)
class PutRun:
    """The run's row becomes `run`. `ended` stamps its end, `reopened` takes it back.

    `limits` are seconds from the write, for a run that begins or is reopened; `start` is when a new
    one is to.
    """

    run: RunState
    ended: bool = False
    limits: Mapping[RunLimit, float] = field(default_factory=dict)
    start: Instant | None = None
    reopened: bool = False


@quickly_made
@dataclass(frozen=True, slots=True)
class PutStep:
    """The step's row becomes `step`.

    `lease_for` and `try_for` stamp a new acquisition; without them a running step keeps its lease.
    `ended` stamps the step's end; `expired` says that the write must find the lease run out, at its
    timeout or before it.
    """

    step: StepState
    lease_for: float | None = None
    try_for: float | None = None
    ended: bool = False
    expired: ExpectedExpiry | None = None


@dataclass(frozen=True, slots=True)
class ExpectedExpiry:
    """The write checks that the lease ran out, and whether at its try's timeout (R6)."""

    timed_out: bool


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A message about the step is to be sent (R3); it needs a place at `connection`, if any."""

    step: int
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class Dequeue:
    """No message about the step is needed any more (R4)."""

    step: int


@dataclass(frozen=True, slots=True)
class PutConnection:
    """The step uses this connection, which an expression gave."""

    step: int
    connection: str


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """The acquisition needs its place at the step's connection no more."""

    step: int
    lease_id: UUID


@dataclass(frozen=True, slots=True)
class SetTimer:
    """A timer due `after` seconds from the write, or `at` seconds since 1970.

    Of another run where `to` names one.
    """

    kind: TimerKind
    step: int | None
    after: float
    generation: int = 0
    details: bytes | None = None
    to: UUID | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class DropTimer:
    """The timer was delivered or is void; the write checks that it is due."""

    timer_id: int


@dataclass(frozen=True, slots=True)
class HoldTimer:
    """A due timer is delivered only when it was let go, because its run is paused.

    `step` is the parked step that it waits for, None where it waits for the run's resume.
    """

    timer_id: int
    step: int | None


@dataclass(frozen=True, slots=True)
class LetTimersGo:
    """Held timers are delivered, late as they are: the step's, or all but those of parked steps."""

    step: int | None


@dataclass(frozen=True, slots=True)
class DropStepTimers:
    """The step needs none of its timers any more; without `deadline` but for that one.

    Those about its child stay (ABOUT_CHILDREN).
    """

    step: int
    deadline: bool = True


@dataclass(frozen=True, slots=True)
class DropRunTimers:
    """The run itself needs none of its timers of this kind any more."""

    kind: TimerKind


@dataclass(frozen=True, slots=True)
class RecordAttempt:
    """An acquisition ended; its start stands on the step's row."""

    step: int
    fence: int
    lease_id: UUID
    worker: str
    outcome: AttemptOutcome
    error: NodeError | None = None
    next_step: int | None = None


@dataclass(frozen=True, slots=True)
class PutEffect:
    """The effect's row becomes `effect`; `created` if it is its first call.

    `lease_for` seconds from the write stamp a new lease; one that is not in flight has none.
    """

    effect: EffectState
    created: bool = False
    lease_for: float | None = None


@dataclass(frozen=True, slots=True)
class DropEffectTimer:
    """The timer that ends the effect's lease is needed no more."""

    key: str


@dataclass(frozen=True, slots=True)
class RecordDecision:
    """A person has decided what became of an effect."""

    key: str
    decision: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class PutScope:
    """The scope's row becomes `scope`."""

    scope: ScopeState


@dataclass(frozen=True, slots=True)
class PutBlock:
    """The counters of a step that holds a sub-graph become `block`."""

    block: BlockState


@dataclass(frozen=True, slots=True)
class PutChild:
    """The child's row becomes `child`."""

    child: ChildState


class KeyMove(StrEnum):
    """What becomes of an exclusive key."""

    TAKE = "take"  # the run has it, and waits for it no more
    AWAIT = "await"  # the run is the last that waits for it
    REPLACE = "replace"  # those who have and want it were told to end
    PASS = "pass"  # from the run, which ended, to another that waits
    LEAVE = "leave"  # the run waits for it no more
    FREE = "free"  # nobody has it


@dataclass(frozen=True, slots=True)
class MoveKey:
    """The run does something about its exclusive key, whose lock is held; `to` with PASS only."""

    move: KeyMove
    key: str
    to: UUID | None = None


@dataclass(frozen=True, slots=True)
class ForgetScope:
    """An ended scope and all in it is kept no longer: steps, tries, lines of the history.

    What it did outside stays in the ledger of effects.
    """

    scope: str


@dataclass(frozen=True, slots=True)
class OpenWait:
    """The step waits for a signal; its key, if it has one, maps to the run."""

    wait: WaitState


@dataclass(frozen=True, slots=True)
class CloseWait:
    """The step waits for no signal any more."""

    step: int


@dataclass(frozen=True, slots=True)
class StoreSignal:
    """The signal waits in the run's inbox; the write checks that its id is new there."""

    signal: SignalState


@dataclass(frozen=True, slots=True)
class TakeSignal:
    """The step consumes the signal; the write checks that nobody has."""

    address: Address
    step: int


@dataclass(frozen=True, slots=True)
class NoteSignal:
    """The signal was looked at and no open wait takes it."""

    address: Address


@dataclass(frozen=True, slots=True)
class KeepSecret:
    """The run has a secret that it made tokens with."""

    secret: bytes


@dataclass(frozen=True, slots=True)
class PutDeadLetter:
    """The run is a dead letter: `node` failed for good with `error`, for a cause of this kind."""

    node: str
    cause: DeadCause
    error: NodeError


@dataclass(frozen=True, slots=True)
class DropDeadLetter:
    """The run is a dead letter no more."""


@dataclass(frozen=True, slots=True)
class PutSubject:
    """What the step does, `WHOLE_RUN` for all that the run does, is about `subject`."""

    step: int
    subject: str
    purpose: str = ""


WHOLE_RUN = 0
"""Stands for the run where a step is named that a subject belongs to: no step has it."""


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """A line for the run's history; `seq` numbers it."""

    seq: int
    kind: str
    step: int | None = None
    fence: int | None = None
    details: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RenameStep:
    """The step stands on `node` from now on, and its edges lead to `taken`, None for all."""

    step: int
    node: str
    taken: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class MoveRun:
    """The run is on the version of `PutRun` from now on; `input` is what it was given, as that
    version's schema completes it.
    """

    input: bytes


@dataclass(frozen=True, slots=True)
class PutCost:
    """A try of the step is estimated to cost so many millionths."""

    step: int
    estimate: int


@dataclass(frozen=True, slots=True)
class Charge:
    """So many millionths are set aside for a try, on the run and on these budgets."""

    step: int
    fence: int
    micros: int
    budgets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settle:
    """What was set aside for a try is settled with what it came to, in millionths."""

    step: int
    fence: int
    reserved: int
    paid: int


@dataclass(frozen=True, slots=True)
class EraseRows:
    """The rows of the run after a place are erased, up to and with one of them.

    The runs that it started are sent their own event.
    """

    place: Place
    upto: str


@dataclass(frozen=True, slots=True)
class EndErasure:
    """The run needs no more events of the erasure; `found_erased` if it needed none at all."""

    erasure_id: UUID
    found_erased: bool = False


@dataclass(frozen=True, slots=True)
class RecordMigration:
    """What a migration did about the run."""

    migration_id: UUID
    told: Told


Action = (
    PutRun
    | PutStep
    | Enqueue
    | Dequeue
    | PutConnection
    | FreeSlot
    | SetTimer
    | DropTimer
    | HoldTimer
    | LetTimersGo
    | DropStepTimers
    | DropRunTimers
    | RecordAttempt
    | PutEffect
    | DropEffectTimer
    | RecordDecision
    | PutScope
    | PutBlock
    | ForgetScope
    | PutChild
    | OpenWait
    | CloseWait
    | StoreSignal
    | TakeSignal
    | NoteSignal
    | KeepSecret
    | PutDeadLetter
    | DropDeadLetter
    | MoveKey
    | RecordHistory
    | PutSubject
    | RenameStep
    | MoveRun
    | RecordMigration
    | PutCost
    | Charge
    | Settle
    | EraseRows
    | EndErasure
)
