"""Writes a batch in one statement, each row once, and checks every guard (p1, R1, R6)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from perdure_machine.actions import PutEffect
from perdure_machine.changes import Changes, StepChange
from perdure_machine.slots import slot_of
from perdure_machine.states import INTERNAL_TIMERS
from perdure_machine.view import StepState
from perdure_runtime.errors import Aborted, Reason

from perdure_store.apply.rows import error_bytes
from perdure_store.pool import Connection
from perdure_store.sql import sql

_encode = msgspec.json.Encoder().encode


class GuardFailed(Aborted):
    """A row was not in the state that the decision saw; nothing was written."""

    def __init__(self, guard: str, expected: int, found: int) -> None:
        super().__init__(
            f"{found} of {expected} {guard} were as the decision saw them", reason=Reason.RETRY
        )


async def write_changes(
    connection: Connection, changes: Sequence[Changes], *, retention: float
) -> int:
    """Write and return the database's time in milliseconds since 1970.

    `retention` is how long a start key outlives its run, in seconds. Raises `GuardFailed`.
    """
    new = [c for c in changes if c.before is None]
    known = [c for c in changes if c.before is not None]
    created = list(_step_changes(changes, new=True))
    updated = list(_step_changes(changes, new=False))
    effects = [(c, put) for c in changes for put in c.effects]
    arguments = chain(
        _columns(20, map(_new_run, new)),
        _columns(4, _tags(new)),
        _columns(11, map(_changed_run, known)),
        [retention],
        _columns(3, _closed_keys(changes)),
        _columns(27, (_new_step(c, s) for c, s in created)),
        _columns(20, (_changed_step(c, s) for c, s in updated)),
        _columns(8, _attempts(changes)),
        _columns(8, (_new_effect(c, put) for c, put in effects if put.created)),
        _columns(5, (_changed_effect(c, put) for c, put in effects if not put.created)),
        _columns(6, _history(changes)),
        _columns(2, ((c.run.run.run_id, step) for c in changes for step in c.dequeue)),
        _columns(8, _outbox(changes)),
        _columns(1, ((timer,) for c in changes for timer in c.drop_timers)),
        _columns(2, ((c.run.run.run_id, step) for c in changes for step in c.drop_step_timers)),
        _columns(8, _timers(changes)),
    )
    row = await connection.fetchrow(sql("apply.write"), *arguments)
    assert row is not None
    _check("runs", len(known), row["runs"])
    _check("steps", len(updated), row["steps"])
    _check("effects", sum(not put.created for _, put in effects), row["effects"])
    _check("timers", sum(len(c.drop_timers) for c in changes), row["timers"])
    return int(row["now_ms"])


def _check(guard: str, expected: int, found: int) -> None:
    if expected != found:
        raise GuardFailed(guard, expected, found)


def _columns(width: int, rows: Iterable[tuple[object, ...]]) -> Sequence[Sequence[object]]:
    """Turn rows into columns, one array each; `width` of them also where there are no rows."""
    columns = list(zip(*rows, strict=True))
    return columns or [()] * width


def _step_changes(changes: Iterable[Changes], *, new: bool) -> Iterable[tuple[Changes, StepChange]]:
    return ((c, s) for c in changes for s in c.steps if (s.before is None) == new)


def _new_run(changes: Changes) -> tuple[object, ...]:
    run, put = changes.run.run, changes.run
    return (
        run.run_id, run.org, run.workflow_id, run.workflow, run.workflow_version, run.status,
        run.revision, run.generation, run.priority, run.next_step, run.ended_nodes, run.next_seq,
        run.input, run.output, error_bytes(run.error), run.start_key,
        json.dumps(dict(run.tags)).encode(), run.traceparent, put.ended, put.age,
    )  # fmt: skip


def _changed_run(changes: Changes) -> tuple[object, ...]:
    run, before = changes.run.run, changes.before
    assert before is not None
    return (
        run.run_id, before.run.revision, run.status, run.revision, run.generation, run.next_step,
        run.ended_nodes, run.next_seq, run.output, error_bytes(run.error), changes.run.ended,
    )  # fmt: skip


def _tags(new: Iterable[Changes]) -> Iterable[tuple[object, ...]]:
    for changes in new:
        run = changes.run.run
        for key, value in run.tags.items():
            yield run.run_id, run.org, key, value


def _closed_keys(changes: Iterable[Changes]) -> Iterable[tuple[object, ...]]:
    for one in changes:
        run = one.run.run
        if one.run.ended and run.start_key is not None:
            yield run.org, run.start_key, run.run_id


def _new_step(changes: Changes, change: StepChange) -> tuple[object, ...]:
    run, put, step = changes.run.run, change.put, change.put.step
    running = put.lease_for is not None
    return (
        run.run_id, step.step, run.org, step.scope, step.generation, step.node, step.kind,
        step.status, step.lane, step.owner, step.priority, step.fence, step.lease_id,
        put.lease_for if running else None, put.try_for if running else None, step.worker,
        step.failures, step.losses, step.effect_prefix, step.input, step.output,
        error_bytes(step.error), step.traceparent, put.ended, _taken(step), step.ended_rank,
        step.stopping,
    )  # fmt: skip


def _changed_step(changes: Changes, change: StepChange) -> tuple[object, ...]:
    put, step, before = change.put, change.put.step, change.before
    assert before is not None
    timed_out = put.expired.timed_out if put.expired is not None else None
    return (
        changes.run.run.run_id, step.step, before.status, before.fence, before.lease_id,
        step.status, step.fence, step.lease_id, step.worker, put.lease_for, put.try_for,
        step.failures, step.losses, step.output, error_bytes(step.error), put.ended, timed_out,
        _taken(step), step.ended_rank, step.stopping,
    )  # fmt: skip


def _taken(step: StepState) -> str | None:
    return None if step.taken is None else " ".join(step.taken)


def _attempts(changes: Iterable[Changes]) -> Iterable[tuple[object, ...]]:
    for one in changes:
        for a in one.attempts:
            yield (
                one.run.run.run_id, a.step, a.fence, a.lease_id, a.worker, a.outcome,
                error_bytes(a.error), a.next_step,
            )  # fmt: skip


def _new_effect(changes: Changes, put: PutEffect) -> tuple[object, ...]:
    run, effect = changes.run.run, put.effect
    return (
        run.run_id, effect.key, run.org, effect.step, effect.kind, effect.status, effect.fence,
        effect.calls,
    )  # fmt: skip


def _changed_effect(changes: Changes, put: PutEffect) -> tuple[object, ...]:
    effect = put.effect
    return (changes.run.run.run_id, effect.key, effect.status, effect.fence, effect.calls)


def _history(changes: Iterable[Changes]) -> Iterable[tuple[object, ...]]:
    for one in changes:
        for line in one.history:
            details = _encode(line.details) if line.details else None
            yield one.run.run.run_id, line.seq, line.kind, line.step, line.fence, details


def _outbox(changes: Iterable[Changes]) -> Iterable[tuple[object, ...]]:
    for one in changes:
        run = one.run.run
        for step in one.enqueue:
            slot = slot_of(run.run_id, step.step)
            yield (
                run.org, run.run_id, step.step, step.lane, step.owner, slot, step.priority,
                step.traceparent,
            )  # fmt: skip


def _timers(changes: Iterable[Changes]) -> Iterable[tuple[object, ...]]:
    for one in changes:
        run = one.run.run
        for timer in one.set_timers:
            yield (
                run.org, run.run_id, timer.step, timer.kind, timer.kind in INTERNAL_TIMERS,
                timer.generation, timer.after, timer.details,
            )  # fmt: skip
