"""What can happen to a run, as values. Ids, jitter and durations arrive with the event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.actions import Instant
from perdure_machine.callbacks import Callback
from perdure_machine.definition.outside import EffectKind
from perdure_machine.mailbox import SignalState
from perdure_machine.replacing import quickly_made
from perdure_machine.states import EffectOutcome
from perdure_machine.view import KeyQueue, NodeError, Parent


@dataclass(frozen=True, slots=True)
class Queue:
    """Where work waits: a lane, and `shared` for built-in executors or the org for its handlers."""

    lane: str
    owner: str


@dataclass(frozen=True, slots=True)
class Start:
    """A new run; `input` has its defaults filled in and is checked.

    `start` is when it is to begin, None for at once. `signal` is sent with it. `exclusive_key` is
    what only one run may hold; `queue` who has and wants it, for one that is to begin at once.
    """

    run_id: UUID
    org: str
    workflow_id: int
    workflow_version: int
    input: bytes
    start_key: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    traceparent: str | None = None
    parent: Parent | None = None
    depth: int = 0
    start: Instant | None = None
    signal: SignalState | None = None
    exclusive_key: str | None = None
    queue: KeyQueue | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class Acquire:
    """A worker wants the step under a lease id of its own making.

    `capacity`: the message said that the step needs a place at a connection.
    """

    step: int
    lease_id: UUID
    worker: str
    capacity: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """The holder hands the step back; neither a failure nor a loss."""

    step: int
    fence: int
    lease_id: UUID


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The try ended well with this output, JSON bytes."""

    output: bytes


@dataclass(frozen=True, slots=True)
class RefusedConnection:
    """A connection whose credentials were refused; their `generation`, 0 if that is not known."""

    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The try ended in an error; `retry_after` seconds are what the other side asked for.

    `refused` is for an error of authorisation by another connection than the step's own.
    """

    error: NodeError
    retry_after: float | None = None
    refused: RefusedConnection | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """The reporter would take a next step of one of these queues under this lease id."""

    lease_id: UUID
    worker: str
    queues: frozenset[Queue]


@quickly_made
@dataclass(frozen=True, slots=True)
class Report:
    """The holder tells how its try ended. `jitter` in [0, 1) spreads a retry.

    `connection_generation` is that of the credentials it had, 0 for none.
    `cost` is what the try came to, in millionths, None where nobody knows.
    """

    step: int
    fence: int
    lease_id: UUID
    outcome: Succeeded | Failed
    effect: EffectOutcome | None = None
    offer: Offer | None = None
    jitter: float = 0.0
    connection_generation: int = 0
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class ExpireLease:
    """The lease ran out: at its try's timeout (a failure), or before it (a loss)."""

    step: int
    fence: int
    lease_id: UUID
    timed_out: bool
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class BeginEffect:
    """The holder of a step is about to call outside, under a token of its own making.

    The call takes `call_for` seconds at most; the provider keeps the key for `keep`, None: not
    said. `digest` is of the request, empty: not compared. `can_look_up`: the caller can find out
    whether the call was performed. `jitter` in [0, 1) spreads what waits.
    """

    step: int
    fence: int
    lease_id: UUID
    name: str
    kind: EffectKind
    token: UUID
    call_for: float
    digest: bytes = b""
    keep: float | None = None
    can_look_up: bool = False
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class SettleEffect:
    """Somebody tells what became of an effect that was begun, or looked up, under a token.

    `result` is what the call came to, or what the look-up was answered, JSON.
    """

    key: str
    token: UUID
    outcome: EffectOutcome
    result: bytes = b"null"
    note: str = ""
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Performed:
    """The effect was performed and came to this, JSON."""

    result: bytes


@dataclass(frozen=True, slots=True)
class NotPerformed:
    """It was not, and may be called again: `although_key_expired`, if the provider forgot it."""

    although_key_expired: bool = False


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It is not found out, and the step fails with this error."""

    error: NodeError


@dataclass(frozen=True, slots=True)
class DecideEffect:
    """A person has found out what became of an effect, or gives it up."""

    key: str
    decision: Performed | NotPerformed | GivenUp
    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FireTimer:
    """A timer may be due."""

    timer_id: int


@dataclass(frozen=True, slots=True)
class ParkOnTimer:
    """A timer could not be delivered for so long that a person has to look; `problem` says why."""

    timer_id: int
    problem: str


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """The child is there: started now, or by an earlier delivery of the same request."""

    run_id: UUID
    version: int


@dataclass(frozen=True, slots=True)
class ChildRefused:
    """The child cannot be started, however often it is tried."""

    error: NodeError


@dataclass(frozen=True, slots=True)
class ChildForgone:
    """The child was not started and never will be."""


@dataclass(frozen=True, slots=True)
class TellOfChild:
    """What came of the request that the delivery of a START_CHILD timer was answered with."""

    timer_id: int
    outcome: ChildStarted | ChildRefused | ChildForgone


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Somebody sends the run a signal."""

    signal: SignalState


@dataclass(frozen=True, slots=True)
class AnswerCallback:
    """Somebody who has the token of a callback answers it; the signal has the wait's channel."""

    callback: Callback
    signal: SignalState


@dataclass(frozen=True, slots=True)
class DeliverSignals:
    """Signals of this name may have been stored for the run without its knowing."""

    name: str


@dataclass(frozen=True, slots=True)
class Emitted:
    """What the timer had the run send was sent, or refused for good because of `refusal`."""

    timer_id: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Somebody cancels the run.

    `reason` and `actor`, who it is, are for the history.
    """

    reason: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class TerminateRun:
    """Somebody ends the run at once, without compensation.

    `reason` and `actor`, who it is, are for the history.
    """

    reason: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class PauseRun:
    """Somebody stops the run for a while.

    `reason` and `actor`, who it is, are for the history.
    """

    reason: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class ResumeRun:
    """Somebody lets a paused run go on.

    `reason` and `actor`, who it is, are for the history.
    """

    reason: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class RetryRun:
    """Somebody has a failed run try again what failed in it.

    `reason` and `actor`, who it is, are for the history.
    """

    reason: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class DiscardDeadLetter:
    """Somebody gives up the dead letter that the run is.

    `reason` and `actor`, who it is, are for the history.
    """

    reason: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class BeginRun:
    """Nobody may have the exclusive key any more that the run waits for."""


@dataclass(frozen=True, slots=True)
class ExpireRun:
    """The run may have passed its deadline or its age limit."""


Event = (
    Acquire
    | Release
    | Report
    | ExpireLease
    | BeginEffect
    | SettleEffect
    | DecideEffect
    | FireTimer
    | ParkOnTimer
    | TellOfChild
    | SendSignal
    | AnswerCallback
    | DeliverSignals
    | Emitted
    | CancelRun
    | TerminateRun
    | PauseRun
    | ResumeRun
    | RetryRun
    | DiscardDeadLetter
    | BeginRun
    | ExpireRun
)
"""What happens to a run that exists."""
