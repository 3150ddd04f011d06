"""Writes what a batch changes in one run: every guard first, then each row once (R1, R6)."""

from __future__ import annotations

from collections.abc import Iterator

from perdure_machine.actions import Instant, PutDeadLetter, PutEffect, SetTimer
from perdure_machine.changes import Changes, StepChange, drops, ends_lease
from perdure_machine.memory.rows import (
    AttemptRow,
    EffectRow,
    GuardFailed,
    HistoryRow,
    RunRow,
    StepRow,
    TimerRow,
)
from perdure_machine.places import At
from perdure_machine.replacing import replace
from perdure_machine.states import ENDED, EffectStatus, StepStatus


def write_changes(row: RunRow, changes: Changes, now: float, timer_ids: Iterator[int]) -> None:
    """Write `changes` of the run `row`. Raises `GuardFailed`."""
    _check(row, changes, now)
    _write_move(row, changes)
    _write_run(row, changes, now)
    for attempt in changes.attempts:
        started = _started_at(row, attempt.step, attempt.fence)
        row.attempts.append(AttemptRow(attempt, now if started is None else started, now))
    for change in changes.steps:
        _write_step(row, change, now)
    for put in changes.effects:
        _write_effect(row, put, now)
    row.decisions += changes.decisions
    row.scopes |= {scope.place: scope for scope in changes.scopes}
    row.blocks |= {block.step: block for block in changes.blocks}
    row.subjects |= {one.step: one for one in changes.subjects}
    row.children |= {put.child.step: put.child for put in changes.children}
    row.history += [HistoryRow(line, now) for line in changes.history]
    if changes.dead_letter is not None:
        letter = changes.dead_letter
        row.dead_letter = letter if isinstance(letter, PutDeadLetter) else None
    row.outbox.difference_update(changes.dequeue)
    row.outbox.update(step.step for step in changes.enqueue)
    row.connected |= {one.step: one.connection for one in changes.connected}
    row.connections |= {one.step: one.connection for one in changes.connections}
    moved = {*changes.dequeue, *(step.step for step in changes.enqueue)}
    row.blocked = {step: name for step, name in row.blocked.items() if step not in moved}
    _write_timers(row, changes, now, timer_ids)
    for scope in changes.forgotten:
        _forget(row, scope)


def _forget(row: RunRow, scope: str) -> None:
    def is_inside(path: str) -> bool:
        return path == scope or path.startswith(f"{scope}.")

    gone = {number for number, one in row.steps.items() if is_inside(one.state.scope)}
    row.steps = {number: one for number, one in row.steps.items() if number not in gone}
    row.attempts = [one for one in row.attempts if one.record.step not in gone]
    row.history = [one for one in row.history if one.line.step not in gone]
    row.blocks = {number: one for number, one in row.blocks.items() if number not in gone}
    row.scopes = {place: one for place, one in row.scopes.items() if not is_inside(place.scope)}


def _check(row: RunRow, changes: Changes, now: float) -> None:
    if changes.before is not None and row.state.revision != changes.before.run.revision:
        raise GuardFailed("the run")
    taken = _activated(row, changes) if changes.renamed else row.activated
    for change in changes.steps:
        _check_step(row, change, taken, now)
    for put in changes.effects:
        if put.created == (put.effect.key in row.effects):
            raise GuardFailed(f"effect {put.effect.key}")
    for timer_id in changes.drop_timers:
        if timer_id not in row.timers or row.timers[timer_id].due_at > now:
            raise GuardFailed(f"timer {timer_id}")


def _activated(row: RunRow, changes: Changes) -> set[At]:
    """Return where steps stand once those that a migration renames have their new names."""
    names = {one.step: one.node for one in changes.renamed}
    steps = (step.state for step in row.steps.values())
    return {step.at._replace(node=names.get(step.step, step.node)) for step in steps}


def _check_step(row: RunRow, change: StepChange, taken: set[At], now: float) -> None:
    number, before, expired = change.put.step.step, change.before, change.put.expired
    found = row.steps.get(number)
    if before is None:
        if found is not None or change.put.step.at in taken:
            raise GuardFailed(f"step {number}")
        return
    seen = (before.status, before.fence, before.lease_id)
    if found is None or (found.state.status, found.state.fence, found.state.lease_id) != seen:
        raise GuardFailed(f"step {number}")
    if expired is not None and not found.has_run_out(now, timed_out=expired.timed_out):
        raise GuardFailed(f"the lease of step {number}")


def _write_move(row: RunRow, changes: Changes) -> None:
    """Write what a migration changed of rows that no other event changes so."""
    for one in changes.renamed:
        step = row.steps[one.step]
        step.state = replace(step.state, node=one.node, taken=one.taken)
    if changes.renamed:
        row.activated = {step.state.at for step in row.steps.values()}
    if changes.moved is not None:
        row.state = replace(row.state, input=changes.moved.input)
    row.migrations |= {one.migration_id: one.told for one in changes.migrations}


def _write_run(row: RunRow, changes: Changes, now: float) -> None:
    run, put = changes.run.run, changes.run
    if put.reopened:
        row.ended_at = None
    if put.ended:
        row.ended_at = now
    if put.start is not None:
        row.start_at = _instant(put.start, now)
    row.limits |= {limit: now + seconds for limit, seconds in put.limits.items()}
    row.state = replace(
        run,
        input=row.state.input,
        output=row.state.output if run.output is None else run.output,
    )


def _started_at(row: RunRow, step: int, fence: int) -> float | None:
    found = row.steps.get(step)
    return found.started_at if found is not None and found.state.fence == fence else None


def _write_step(row: RunRow, change: StepChange, now: float) -> None:
    put = change.put
    found = row.steps.get(put.step.step)
    written = found or StepRow(put.step, created_at=now)
    if put.step.fence > (found.state.fence if found else 0):
        written.started_at = now
    if put.step.status is not StepStatus.RUNNING:
        written.lease_expires_at = written.try_expires_at = None
    elif put.lease_for is not None:
        written.lease_expires_at = now + put.lease_for
        written.try_expires_at = None if put.try_for is None else now + put.try_for
    kept = written.ended_at if put.step.status in ENDED else None
    written.ended_at = now if put.ended else kept
    payload = found.state.input if found and not change.begins_again else put.step.input
    written.state = replace(put.step, input=payload, lease_left=None)
    row.steps[put.step.step] = written
    row.activated.add(put.step.at)


def _write_effect(row: RunRow, put: PutEffect, now: float) -> None:
    effect = put.effect
    written = row.effects.setdefault(effect.key, EffectRow(effect, begun_at=now))
    written.state = effect
    is_settled = effect.status is EffectStatus.SETTLED
    written.settled_at = (written.settled_at or now) if is_settled else None
    if effect.status is not EffectStatus.IN_FLIGHT:
        written.lease_expires_at = None
    elif put.lease_for is not None:
        written.lease_expires_at = now + put.lease_for


def _held_or_let_go(timer: TimerRow, row: RunRow, changes: Changes) -> TimerRow:
    step = row.steps.get(timer.timer.step or 0)
    is_parked = step is not None and step.state.status is StepStatus.PARKED
    let_go = timer.timer.step if is_parked else None
    held = timer.held and not {let_go, timer.timer.step} & set(changes.let_timers_go)
    return replace(timer, held=held or timer.timer_id in changes.hold_timers)


def _write_timers(row: RunRow, changes: Changes, now: float, timer_ids: Iterator[int]) -> None:
    row.timers = {
        number: _held_or_let_go(kept, row, changes)
        for number, kept in row.timers.items()
        if number not in changes.drop_timers and not _is_dropped(kept.timer, changes)
    }
    for timer in changes.set_timers:
        if timer.to is None:
            set_timer(row, timer, row.state.org, now, next(timer_ids))


def set_timer(row: RunRow, timer: SetTimer, org: str, now: float, timer_id: int) -> None:
    """Let a timer that a run of `org` set wait for delivery to `row`."""
    due_at = _instant(Instant(timer.after, timer.at), now)
    own = replace(timer, to=None)
    row.timers[timer_id] = TimerRow(timer_id, org, row.state.run_id, own, due_at)


def _is_dropped(timer: SetTimer, changes: Changes) -> bool:
    if timer.step is None:
        over = any(ends_lease(timer, key) for key in changes.drop_effect_timers)
        return over or timer.kind in changes.drop_run_timers
    return any(drops(action, timer) for action in changes.drop_step_timers)


def _instant(instant: Instant, now: float) -> float:
    return now + instant.after if instant.at is None else instant.at
