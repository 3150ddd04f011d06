"""What the sender of an event is told, as values; sent only after the commit (R2)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from perdure_machine.capacity import Tried
from perdure_machine.definition.outside import EffectKind
from perdure_machine.mailbox import SignalState
from perdure_machine.replacing import quickly_made
from perdure_machine.states import RunStatus
from perdure_machine.view import EffectState, Parent, RunState, StepState


@dataclass(frozen=True, slots=True)
class Started:
    """The run exists now."""

    run: RunState


@dataclass(frozen=True, slots=True)
class EffectPlan:
    """The call of a step, which its holder begins just before it makes it."""

    key: str
    name: str
    kind: EffectKind
    keep: float | None
    can_look_up: bool


@quickly_made
@dataclass(frozen=True, slots=True)
class Granted:
    """The step is the asker's for `lease_for` seconds; `timeout` seconds limit the try.

    `connection` is the one that it uses. `effect` is in flight with the lease; what the holder
    itself is to begin is `begins`.
    """

    run: RunState
    step: StepState
    lease_for: float
    timeout: float | None
    handler: str
    effect: EffectState | None
    connection: str | None = None
    begins: EffectPlan | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """Nobody can take the step: it is leased, ended, or its run closed."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The step's connection has no place for it now; it stays queued and comes back by itself."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Applied:
    """The event counts, now or by an earlier delivery; `next` was chained to a report.

    `tried` is what a try that ended now tells of its connection.
    """

    next: Granted | None = None
    tried: Tried | None = None


@dataclass(frozen=True, slots=True)
class Stale:
    """The event changes nothing any more."""


@dataclass(frozen=True, slots=True)
class Early:
    """The timer is due in `remaining` seconds."""

    remaining: float


@dataclass(frozen=True, slots=True)
class Signalled:
    """The run has the signal; `new` if it had not got it before."""

    new: bool


@dataclass(frozen=True, slots=True)
class Emission:
    """The run sends a signal by its key, or to the run `target`; then tell it `Emitted`."""

    timer_id: int
    signal: SignalState
    target: UUID | None


@dataclass(frozen=True, slots=True)
class EffectBegun:
    """The asker may call, within the `lease_for` seconds that the effect's lease still lives."""

    effect: EffectState
    lease_for: float


@dataclass(frozen=True, slots=True)
class EffectSettled:
    """It was performed; `result` is what it came to, None where that is not known."""

    key: str
    result: bytes | None


@dataclass(frozen=True, slots=True)
class EffectToLookUp:
    """Nobody knows whether it was performed; the asker finds out, under its token."""

    key: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """The step is its holder's no more: it waits for `why`, or has ended."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class EffectRefused:
    """It certainly was not performed."""


@dataclass(frozen=True, slots=True)
class EffectUnknown:
    """Nobody knows, and its holder's try has failed by that."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The step's run was closed, or the step is to end: nothing may begin."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run is cancelled; `changed` if this event did it."""

    changed: bool


@dataclass(frozen=True, slots=True)
class Done:
    """The run is as the command wants it; `changed` if this event did it."""

    changed: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """The run ended otherwise and takes no such command."""

    status: RunStatus


@dataclass(frozen=True, slots=True)
class ChildWanted:
    """Start this run under its key, then tell what came of it with `TellOfChild`.

    `version` 0 is the latest.
    """

    org: str
    workflow: str
    version: int
    input: bytes
    start_key: str
    priority: int
    traceparent: str | None
    parent: Parent
    depth: int


@dataclass(frozen=True, slots=True)
class ChildUnwanted:
    """See that no run is started under this key any more, then tell whether one was."""

    start_key: str


Reply = (
    Started
    | Granted
    | Gone
    | Blocked
    | Applied
    | Stale
    | Early
    | EffectBegun
    | EffectSettled
    | EffectToLookUp
    | EffectRefused
    | EffectUnknown
    | Suspended
    | Stopping
    | Signalled
    | Emission
    | Cancelled
    | Done
    | Closed
    | ChildWanted
    | ChildUnwanted
)
