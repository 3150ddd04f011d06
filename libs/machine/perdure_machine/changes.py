"""Many actions of one run, folded into at most one write of each row.

Two writes of one row in one SQL statement lose one in silence (design P1), so the last state of a
row wins here, together with the state it was loaded in, which guards the write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from perdure_machine.actions import (
    Action,
    Charge,
    CloseWait,
    Dequeue,
    DropDeadLetter,
    DropEffectTimer,
    DropRunTimers,
    DropStepTimers,
    DropTimer,
    EndErasure,
    Enqueue,
    EraseRows,
    ForgetScope,
    FreeSlot,
    HoldTimer,
    KeepSecret,
    LetTimersGo,
    MoveKey,
    MoveRun,
    NoteSignal,
    OpenWait,
    PutBlock,
    PutChild,
    PutConnection,
    PutCost,
    PutDeadLetter,
    PutEffect,
    PutRun,
    PutScope,
    PutStep,
    PutSubject,
    RecordAttempt,
    RecordDecision,
    RecordHistory,
    RecordMigration,
    RenameStep,
    SetTimer,
    Settle,
    StoreSignal,
    TakeSignal,
)
from perdure_machine.mailbox import Address, SignalState, WaitState
from perdure_machine.places import Place
from perdure_machine.replacing import quickly_made, replace
from perdure_machine.states import (
    ABOUT_CHILDREN,
    ENDED,
    EffectStatus,
    StepStatus,
    TimerKind,
)
from perdure_machine.view import BlockState, ScopeState, StepState, View


@quickly_made
@dataclass(frozen=True, slots=True)
class StepChange:
    """A step to write: `before` is the state it was loaded in, None for a new one."""

    put: PutStep
    before: StepState | None

    @property
    def begins_again(self) -> bool:
        """Whether a retry of the run has made the step anew: it is given what a new one is."""
        if self.before is None or self.put.step.undecided:
            return False
        was_over = self.before.status in ENDED and self.put.step.status not in ENDED
        return self.before.undecided or was_over


@quickly_made
@dataclass(frozen=True, slots=True)
class MailChanges:
    """What a batch changes in a run's inbox and its waits; false where that is nothing."""

    opened: tuple[WaitState, ...] = ()
    closed: tuple[int, ...] = ()
    stored: tuple[SignalState, ...] = ()
    taken: tuple[TakeSignal, ...] = ()
    noted: tuple[Address, ...] = ()
    secret: bytes | None = None

    def __bool__(self) -> bool:
        rows = self.opened or self.closed or self.stored or self.taken or self.noted
        return bool(rows) or self.secret is not None


@quickly_made
@dataclass(frozen=True, slots=True)
class Changes:
    """All that a batch of events changes in one run."""

    before: View | None  # as loaded; None for a new run
    run: PutRun
    steps: tuple[StepChange, ...]
    enqueue: tuple[StepState, ...]
    dequeue: tuple[int, ...]
    set_timers: tuple[SetTimer, ...]
    drop_timers: tuple[int, ...]
    hold_timers: tuple[int, ...]
    let_timers_go: tuple[int | None, ...]  # of these steps, None: of the run as a whole
    drop_step_timers: tuple[DropStepTimers, ...]
    drop_run_timers: tuple[TimerKind, ...]
    key_moves: tuple[MoveKey, ...]
    attempts: tuple[RecordAttempt, ...]
    effects: tuple[PutEffect, ...]
    children: tuple[PutChild, ...]
    mail: MailChanges
    history: tuple[RecordHistory, ...]
    scopes: tuple[ScopeState, ...] = ()
    blocks: tuple[BlockState, ...] = ()
    forgotten: tuple[str, ...] = ()  # paths of scopes
    dead_letter: PutDeadLetter | DropDeadLetter | None = None
    moved: MoveRun | None = None
    renamed: tuple[RenameStep, ...] = ()
    migrations: tuple[RecordMigration, ...] = ()
    subjects: tuple[PutSubject, ...] = ()
    costs: tuple[PutCost, ...] = ()
    charges: tuple[Charge, ...] = ()
    settled: tuple[Settle, ...] = ()
    erased: tuple[EraseRows, ...] = ()
    erasures_ended: tuple[EndErasure, ...] = ()
    connected: tuple[PutConnection, ...] = ()  # of what is enqueued: the connection it needs
    connections: tuple[PutConnection, ...] = ()  # what expressions gave
    freed: tuple[FreeSlot, ...] = ()
    drop_effect_timers: tuple[str, ...] = ()  # keys
    decisions: tuple[RecordDecision, ...] = ()

    @property
    def drops_dead_letter(self) -> bool:
        """Whether the dead letter that the run was is no more."""
        was_one = self.before is not None and self.before.run.dead_lettered
        return was_one and self.dead_letter is not None


def collapse(before: View | None, actions: Iterable[Action]) -> Changes | None:
    """Fold actions in order; None where there are none. `before` is the view first loaded."""
    folder = _Folder()
    for action in actions:
        folder.take(action)
    return folder.changes(before)


class _Folder:
    def __init__(self) -> None:
        self.run: PutRun | None = None
        self.steps: dict[int, PutStep] = {}
        self.queued: dict[int, bool] = {}
        self.connected: dict[int, PutConnection] = {}
        self.connections: list[PutConnection] = []
        self.freed: list[FreeSlot] = []
        self.set_timers: list[SetTimer] = []
        self.drop_timers: list[int] = []
        self.hold_timers: dict[int, int | None] = {}
        self.let_timers_go: dict[int | None, None] = {}
        self.drop_step_timers: list[DropStepTimers] = []
        self.drop_run_timers: list[TimerKind] = []
        self.key_moves: list[MoveKey] = []
        self.attempts: list[RecordAttempt] = []
        self.effects: dict[str, PutEffect] = {}
        self.children: dict[int, PutChild] = {}
        self.mail = _MailFolder()
        self.dead_letter: PutDeadLetter | DropDeadLetter | None = None
        self.history: list[RecordHistory] = []
        self.scopes: dict[Place, ScopeState] = {}
        self.blocks: dict[int, BlockState] = {}
        self.forgotten: list[str] = []
        self.moved: MoveRun | None = None
        self.renamed: dict[int, RenameStep] = {}
        self.migrations: dict[UUID, RecordMigration] = {}
        self.subjects: dict[int, PutSubject] = {}
        self.costs: dict[int, PutCost] = {}
        self.charges: list[Charge] = []
        self.settled: list[Settle] = []
        self.erased: list[EraseRows] = []
        self.erasures_ended: list[EndErasure] = []
        self.drop_effect_timers: dict[str, None] = {}
        self.decisions: list[RecordDecision] = []

    def take(self, action: Action) -> None:
        match action:
            case PutRun():
                self._put_run(action)
            case PutStep():
                self._put_step(action)
            case Enqueue(step, connection):
                self.queued[step] = True
                if connection is not None:
                    self.connected[step] = PutConnection(step, connection)
            case PutConnection():
                self.connections.append(action)
            case FreeSlot():
                self.freed.append(action)
            case Dequeue(step):
                self.queued[step] = False
            case SetTimer():
                self.set_timers.append(action)
            case DropTimer(timer_id):
                self.drop_timers.append(timer_id)
            case HoldTimer(timer_id, step):
                self.hold_timers[timer_id] = step
            case LetTimersGo(step):
                self._let_timers_go(step)
            case DropStepTimers():
                self.set_timers = [one for one in self.set_timers if not drops(action, one)]
                self.drop_step_timers.append(action)
            case DropRunTimers(kind):
                self.set_timers = [one for one in self.set_timers if one.kind is not kind]
                self.drop_run_timers.append(kind)
            case MoveKey():
                self.key_moves.append(action)
            case RecordAttempt():
                self.attempts.append(action)
            case PutEffect():
                self._put_effect(action)
            case DropEffectTimer(key):
                self._drop_effect_timer(key)
            case RecordDecision():
                self.decisions.append(action)
            case PutScope(scope):
                self.scopes[scope.place] = scope
            case PutBlock(block):
                self.blocks[block.step] = block
            case ForgetScope(scope):
                self.forgotten.append(scope)
            case PutChild(child):
                self.children[child.step] = action
            case PutDeadLetter() | DropDeadLetter():
                self.dead_letter = action
            case RecordHistory():
                self.history.append(action)
            case (
                OpenWait()
                | CloseWait()
                | StoreSignal()
                | TakeSignal()
                | NoteSignal()
                | KeepSecret()
            ):
                self.mail.take(action)
            case MoveRun():
                self.moved = action
            case RenameStep(step):
                self.renamed[step] = action
            case RecordMigration(migration_id):
                self.migrations[migration_id] = action
            case PutSubject(step):
                self.subjects[step] = action
            case PutCost(step):
                self.costs[step] = action
            case Charge():
                self.charges.append(action)
            case Settle():
                self.settled.append(action)
            case EraseRows():
                self.erased.append(action)
            case EndErasure():
                self.erasures_ended.append(action)

    def _put_run(self, action: PutRun) -> None:
        last = self.run
        self.run = action
        if last is not None:
            limits = {**last.limits, **action.limits}
            ended = action.ended or (last.ended and not action.reopened)
            start, reopened = action.start or last.start, action.reopened or last.reopened
            self.run = replace(action, ended=ended, limits=limits, start=start, reopened=reopened)

    def _put_step(self, action: PutStep) -> None:
        last = self.steps.get(action.step.step)
        if last is not None and last.expired is not None:
            action = replace(action, expired=last.expired)
        if last is not None and _keeps_lease(last, action):
            action = replace(action, lease_for=last.lease_for, try_for=last.try_for)
        self.steps[action.step.step] = action

    def _let_timers_go(self, step: int | None) -> None:
        self.hold_timers = {n: one for n, one in self.hold_timers.items() if one != step}
        self.let_timers_go[step] = None

    def _put_effect(self, action: PutEffect) -> None:
        last = self.effects.get(action.effect.key)
        created = action.created or (last is not None and last.created)
        lease_for = action.lease_for
        if lease_for is None and last is not None and _same_call(last, action):
            lease_for = last.lease_for
        self.effects[action.effect.key] = replace(action, created=created, lease_for=lease_for)

    def _drop_effect_timer(self, key: str) -> None:
        self.set_timers = [one for one in self.set_timers if not ends_lease(one, key)]
        self.drop_effect_timers[key] = None

    def changes(self, before: View | None) -> Changes | None:
        if self.run is None:
            return None
        loaded = before.steps if before is not None else {}
        return Changes(
            before=before,
            run=self.run,
            steps=tuple(StepChange(put, loaded.get(n)) for n, put in self.steps.items()),
            enqueue=tuple(self.steps[n].step for n, queued in self.queued.items() if queued),
            dequeue=tuple(n for n, queued in self.queued.items() if not queued and n in loaded),
            set_timers=tuple(self.set_timers),
            drop_timers=tuple(self.drop_timers),
            hold_timers=tuple(self.hold_timers),
            let_timers_go=tuple(self.let_timers_go),
            drop_step_timers=tuple(self.drop_step_timers),
            drop_run_timers=tuple(self.drop_run_timers),
            key_moves=tuple(self.key_moves),
            attempts=tuple(self.attempts),
            effects=tuple(self.effects.values()),
            children=tuple(self.children.values()),
            mail=self.mail.changes(),
            history=tuple(self.history),
            scopes=tuple(self.scopes.values()),
            blocks=tuple(self.blocks.values()),
            forgotten=tuple(self.forgotten),
            dead_letter=self.dead_letter,
            moved=self.moved,
            renamed=tuple(self.renamed.values()),
            migrations=tuple(self.migrations.values()),
            subjects=tuple(self.subjects.values()),
            costs=tuple(self.costs.values()),
            charges=tuple(self.charges),
            settled=tuple(self.settled),
            erased=tuple(self.erased),
            erasures_ended=tuple(self.erasures_ended),
            connected=tuple(one for n, one in self.connected.items() if self.queued[n]),
            connections=tuple(self.connections),
            freed=tuple(self.freed),
            drop_effect_timers=tuple(self.drop_effect_timers),
            decisions=tuple(self.decisions),
        )


def drops(action: DropStepTimers, timer: SetTimer) -> bool:
    """Tell whether the timer, of the run whose step it is, is one of those that are dropped."""
    is_kept = timer.kind is TimerKind.DEADLINE and not action.deadline
    return timer.step == action.step and not is_kept and timer.kind not in ABOUT_CHILDREN


_MailAction = OpenWait | CloseWait | StoreSignal | TakeSignal | NoteSignal | KeepSecret


def ends_lease(timer: SetTimer, key: str) -> bool:
    """Tell whether the timer ends the lease of the effect."""
    return timer.kind is TimerKind.EFFECT_LEASE and timer.details == key.encode()


class _MailFolder:
    def __init__(self) -> None:
        self.opened: dict[int, WaitState] = {}
        self.closed: list[int] = []
        self.stored: list[SignalState] = []
        self.taken: list[TakeSignal] = []
        self.noted: list[Address] = []
        self.secret: bytes | None = None

    def take(self, action: _MailAction) -> None:
        match action:
            case OpenWait(wait):
                self.opened[wait.step] = wait
            case CloseWait(step):
                if self.opened.pop(step, None) is None:
                    self.closed.append(step)
            case StoreSignal(signal):
                self.stored.append(signal)
            case TakeSignal():
                self.taken.append(action)
            case NoteSignal(address):
                self.noted.append(address)
            case KeepSecret(secret):
                self.secret = secret

    def changes(self) -> MailChanges:
        return MailChanges(
            tuple(self.opened.values()),
            tuple(self.closed),
            tuple(self.stored),
            tuple(self.taken),
            tuple(self.noted),
            self.secret,
        )


def _keeps_lease(last: PutStep, action: PutStep) -> bool:
    """Tell whether `action` leaves the step running under the lease that `last` gave it."""
    is_running = action.step.status is StepStatus.RUNNING
    return is_running and action.step.fence == last.step.fence and action.lease_for is None


def _same_call(last: PutEffect, action: PutEffect) -> bool:
    """Tell whether `action` leaves the call in flight that `last` began."""
    before, after = last.effect.call, action.effect.call
    in_flight = action.effect.status is EffectStatus.IN_FLIGHT
    return in_flight and before is not None and after is not None and before.token == after.token
