"""What waits in the engine in memory: for a worker, for a time, for a sweep; and what is stuck."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from perdure_machine.decide.parking import AWAITED, PAUSE, TIMER
from perdure_machine.decide.suspending import REVIEW
from perdure_machine.decide.winding import scopes_inside
from perdure_machine.definition.model import ChildRun, Signal
from perdure_machine.lanes import Lane
from perdure_machine.mailbox import WaitState
from perdure_machine.memory.connections import Connections
from perdure_machine.memory.exclusive import ExclusiveKeys
from perdure_machine.memory.rows import RunRow, StepRow, TimerRow
from perdure_machine.states import (
    INTERNAL_TIMERS,
    DeadCause,
    EffectStatus,
    ParentEnd,
    RunStatus,
    StepStatus,
    TimerKind,
)
from perdure_machine.view import ChildState, EffectState, NodeError, Parked, StepState

GRACE = 30.0
"""Seconds beyond its lane's lease for which an expired lease is still a way forward (R10)."""


@dataclass(frozen=True, slots=True)
class QueuedStep:
    """A step that waits for a worker."""

    org: str
    run_id: UUID
    step: int
    node: str
    lane: str
    owner: str
    priority: int


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer whose time has come."""

    org: str
    run_id: UUID
    timer_id: int


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """A lease that ran out; `timed_out`: at its try's timeout."""

    org: str
    run_id: UUID
    step: int
    fence: int
    lease_id: UUID
    timed_out: bool


@dataclass(frozen=True, slots=True)
class Stuck:
    """A step, or a run where `step` is None, with no way forward; `missing` is what it lacks."""

    run_id: UUID
    step: int | None
    status: str
    missing: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A run that ended failed because a step failed for good."""

    run_id: UUID
    workflow: str
    node: str
    cause: DeadCause
    error: NodeError


def dead_letters(
    runs: Iterable[RunRow], org: str, workflow: str | None, code: str | None
) -> list[DeadLetter]:
    """Return the dead letters of an org, those of the oldest runs first; None matches all."""
    return [
        DeadLetter(row.state.run_id, row.state.workflow, dead.node, dead.cause, dead.error)
        for row in sorted(runs, key=lambda row: row.state.run_id)
        if (dead := row.dead_letter) is not None
        and row.state.org == org
        and workflow in (None, row.state.workflow)
        and code in (None, dead.error.code)
    ]


def queued_steps(runs: Iterable[RunRow]) -> list[QueuedStep]:
    """Return what a worker may acquire, in the order of runs and steps."""
    return [
        QueuedStep(
            org=row.state.org,
            run_id=row.state.run_id,
            step=number,
            node=row.steps[number].state.node,
            lane=row.steps[number].state.lane or "",
            owner=row.steps[number].state.owner or "",
            priority=row.steps[number].state.priority,
        )
        for row in runs
        for number in sorted(row.outbox)
        if number not in row.blocked
    ]


def due_timers(runs: Iterable[RunRow], now: float) -> list[DueTimer]:
    """Return the timers that are due, the earliest first."""
    return [
        DueTimer(timer.org, timer.run_id, timer.timer_id)
        for timer in sorted_timers(runs)
        if timer.due_at <= now and not timer.held
    ]


def old_runs(runs: Iterable[RunRow], now: float) -> list[UUID]:
    """Return the unfinished runs that passed a limit, unless they are paused."""
    return [
        row.state.run_id
        for row in runs
        if row.state.status is RunStatus.RUNNING and not row.state.paused and row.passed(now)
    ]


def sorted_timers(runs: Iterable[RunRow]) -> list[TimerRow]:
    """Return all timers, the earliest first."""
    timers = [timer for row in runs for timer in row.timers.values()]
    return sorted(timers, key=lambda timer: (timer.due_at, timer.timer_id))


def expired_leases(runs: Iterable[RunRow], now: float) -> list[ExpiredLease]:
    """Return the leases that ran out."""
    return [_expired(row, step) for row in runs for step in _run_out(row, now)]


def _run_out(row: RunRow, now: float) -> Iterator[StepRow]:
    for step in row.steps.values():
        if step.lease_expires_at is not None and step.lease_expires_at <= now:
            yield step


def _expired(row: RunRow, step: StepRow) -> ExpiredLease:
    state = step.state
    assert state.lease_id is not None
    return ExpiredLease(
        org=row.state.org,
        run_id=row.state.run_id,
        step=state.step,
        fence=state.fence,
        lease_id=state.lease_id,
        timed_out=step.at_timeout,
    )


def stuck(
    runs: Mapping[UUID, RunRow],
    keys: ExclusiveKeys,
    lanes: Mapping[str, Lane],
    now: float,
    waits: Mapping[UUID, Mapping[int, WaitState]],
    connections: Connections,
) -> list[Stuck]:
    """Return what has no way forward, with the meaning of the database's view (R10)."""
    found = []
    for row in runs.values():
        if row.state.status is not RunStatus.RUNNING:
            continue
        unfinished = row.unfinished(running=True)
        for number in unfinished:
            is_awaited = number in waits.get(row.state.run_id, {})
            step = row.steps[number]
            missing = _missing(row, step, runs, lanes, now, awaits=is_awaited)
            missing = missing or _lacks_cause(row, step.state, connections, now)
            if missing is not None:
                status = str(row.steps[number].state.status)
                found.append(Stuck(row.state.run_id, number, status, missing))
        goes_on = _has_internal_event(row) or _awaits_child(row, runs) or _in_turn(row, runs, keys)
        if not unfinished and not (row.state.paused or goes_on):
            missing = "running with no unfinished step and no internal event"
            found.append(Stuck(row.state.run_id, None, str(row.state.status), missing))
    return found


def _in_turn(row: RunRow, runs: Mapping[UUID, RunRow], keys: ExclusiveKeys) -> bool:
    """Tell whether the run waits behind one that goes on, or that is about to hand over."""
    holder = keys.holder_behind(row.state)
    if holder is None or holder not in runs:
        return False
    ahead = runs[holder]
    hands_over = any(one.timer.kind is TimerKind.HAND_OVER for one in ahead.timers.values())
    return ahead.state.status is RunStatus.RUNNING or hands_over


def _missing(
    row: RunRow,
    step: StepRow,
    runs: Mapping[UUID, RunRow],
    lanes: Mapping[str, Lane],
    now: float,
    *,
    awaits: bool,
) -> str | None:
    state = step.state
    match state.status:
        case StepStatus.QUEUED if state.step not in row.outbox:
            return "queued without an outbox row"
        case StepStatus.RUNNING if _ended_long_ago(step, lanes, now):
            return "running under a lease that ended long ago"
        case StepStatus.BACKING_OFF if not _has_timer(row, state.step, TimerKind.RETRY):
            return "backing off without a retry timer"
        case StepStatus.WAITING if state.kind == Signal.name:
            return None if awaits else "waiting for nothing that will come"
        case StepStatus.WAITING if not row.state.paused and not _waits(row, state, runs):
            return "waiting for nothing that will come"
        case _:
            return None


def _waits(row: RunRow, step: StepState, runs: Mapping[UUID, RunRow]) -> bool:
    """Tell whether a waiting step has a timer, a child, or something unfinished inside."""
    if step.kind == ChildRun.name:
        return _waits_for_child(row, step.step, runs)
    kinds = (TimerKind.WAIT, TimerKind.EFFECT_WAIT, TimerKind.FAN_OUT, TimerKind.STOP_INSIDE)
    if any(_has_timer(row, step.step, kind) for kind in kinds) or _has_internal_event(row):
        return True
    inside = scopes_inside(step)
    return any(
        row.steps[number].state.scope.startswith(inside) for number in row.unfinished(running=True)
    )


def _ended_long_ago(step: StepRow, lanes: Mapping[str, Lane], now: float) -> bool:
    expiry, lane = step.lease_expires_at, lanes[step.state.lane or ""]
    return expiry is not None and expiry < now - lane.lease - GRACE


def _waits_for_child(row: RunRow, step: int, runs: Mapping[UUID, RunRow]) -> bool:
    kinds = (TimerKind.START_CHILD, TimerKind.CHILD_ENDED)
    if any(_has_timer(row, step, kind) for kind in kinds):
        return True
    child = row.children.get(step)
    return child is not None and _is_unfinished(child, runs)


def _awaits_child(row: RunRow, runs: Mapping[UUID, RunRow]) -> bool:
    return any(
        child.on_parent_end is ParentEnd.WAIT and _is_unfinished(child, runs)
        for child in row.children.values()
    )


def _is_unfinished(child: ChildState, runs: Mapping[UUID, RunRow]) -> bool:
    run = runs.get(child.run_id) if child.run_id is not None else None
    return run is not None and run.state.status is RunStatus.RUNNING


def _lacks_cause(row: RunRow, step: StepState, connections: Connections, now: float) -> str | None:
    """Return what is wrong with a step that is blocked or parked although nothing hinders it."""
    org, blocked_on = row.state.org, row.blocked.get(step.step)
    if blocked_on is not None and connections.has_room(org, blocked_on, now - GRACE):
        return "blocked for a cause that does not stand"
    if step.parked is not None and not _stands(row, step, step.parked, connections):
        return "parked for a cause that does not stand"
    return None


def _stands(row: RunRow, step: StepState, parked: Parked, connections: Connections) -> bool:
    """Tell whether a parked step's cause stands, or an event is on its way that brings it back."""
    if parked.cause == TIMER:
        return any(
            one.held and one.timer.step == step.step and one.timer.kind in AWAITED
            for one in row.timers.values()
        )
    if parked.cause == REVIEW:
        return any(_is_reviewed_for(effect.state, step) for effect in row.effects.values())
    if parked.cause == PAUSE:
        return row.state.paused or _has_timer(row, None, TimerKind.UNPARK)
    stands = connections.stands(row.state.org, parked.cause, parked.generation)
    return stands or _has_timer(row, None, TimerKind.CAUSE_GONE)


def _is_reviewed_for(effect: EffectState, step: StepState) -> bool:
    waiter = effect.step if effect.call is None else effect.call.waiter
    return effect.status is EffectStatus.NEEDS_REVIEW and waiter == step.step


def _has_timer(row: RunRow, step: int | None, kind: TimerKind) -> bool:
    """Tell whether there is a timer that will be delivered."""
    return any(
        (one.timer.step, one.timer.kind) == (step, kind) and not one.held
        for one in row.timers.values()
    )


def _has_internal_event(row: RunRow) -> bool:
    return any(one.timer.kind in INTERNAL_TIMERS and not one.held for one in row.timers.values())
