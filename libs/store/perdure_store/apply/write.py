"""Writes a batch in one statement, each row once, and checks every guard (p1, R1, R6)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from perdure_machine.actions import Instant, PutEffect
from perdure_machine.changes import Changes, StepChange
from perdure_machine.slots import job_of, slot_of
from perdure_machine.states import INTERNAL_TIMERS, RunLimit
from perdure_machine.view import Parent, StepState
from perdure_runtime.errors import Aborted, Reason

from perdure_store.apply.children import write_children
from perdure_store.apply.dead_letters import write_dead_letters
from perdure_store.apply.exclusive import write_key_moves
from perdure_store.apply.reopened import write_reopened
from perdure_store.apply.rows import error_bytes
from perdure_store.apply.rowsets import Row, RowSet, Statement
from perdure_store.apply.standing import write_standing
from perdure_store.apply.write_beginnings import write_beginnings
from perdure_store.apply.write_capacity import write_capacity
from perdure_store.apply.write_effects import drop_lease_timers, write_effects
from perdure_store.apply.write_moves import write_moves
from perdure_store.apply.write_orders import write_orders
from perdure_store.apply.write_scopes import forget_scopes, write_scopes
from perdure_store.pool import Connection
from perdure_store.sql import sql

_encode = msgspec.json.Encoder().encode


class GuardFailed(Aborted):
    """A row was not in the state that the decision saw; nothing was written."""

    def __init__(self, guard: str, expected: int, found: int) -> None:
        super().__init__(
            f"{found} of {expected} {guard} were as the decision saw them", reason=Reason.RETRY
        )


WRITE = Statement(
    sql("apply.write"),
    [
        RowSet.of(
            "new_runs",
            "run_id uuid, org text, workflow_id bigint, workflow text, workflow_version integer,"
            "status text, revision bigint, generation integer, priority smallint,"
            "next_step integer, ended_nodes integer, inner_ended integer, next_seq integer,"
            "input bytea, output bytea, error bytea, start_key text, tags bytea, traceparent text,"
            "parent_run uuid, parent_step integer, parent_told boolean, depth smallint,"
            "open_children integer, awaited_children integer, ended boolean, age float8,"
            "deadline float8, pending boolean, exclusive_key text, start_after float8,"
            "start_at float8",
        ),
        RowSet.of("new_tags", "run_id uuid, org text, key text, value text"),
        RowSet.of(
            "changed_runs",
            "run_id uuid, before bigint, status text, revision bigint, generation integer,"
            "scope_generation integer, next_step integer, ended_nodes integer, inner_ended integer,"
            "next_seq integer, open_children integer, awaited_children integer, output bytea,"
            "error bytea, ended boolean, age float8, deadline float8, pending boolean,"
            "begun_ms bigint",
        ),
        RowSet.of("closed_keys", "org text, start_key text, run_id uuid"),
        RowSet.of(
            "new_steps",
            "run_id uuid, step integer, org text, scope text, generation integer, node text,"
            "kind text, status text, lane text, owner text, priority smallint, fence integer,"
            "lease_id uuid, lease_for float8, try_for float8, worker text, failures integer,"
            "losses integer, effect_prefix text, input bytea, output bytea, error bytea,"
            "traceparent text, ended boolean, taken text, ended_rank integer, stopping boolean,"
            "compensable boolean, compensates integer",
        ),
        RowSet.of(
            "changed_steps",
            "run_id uuid, step integer, before text, before_fence integer, before_lease uuid,"
            "status text, fence integer, lease_id uuid, worker text, lease_for float8,"
            "try_for float8, failures integer, losses integer, output bytea, error bytea,"
            "ended boolean, timed_out boolean, taken text, ended_rank integer, stopping boolean,"
            "undecided boolean, compensable boolean, parked_on text, parked_generation integer,"
            "parked_from text",
        ),
        RowSet.of(
            "new_attempts",
            "run_id uuid, step integer, fence integer, lease_id uuid, worker text, outcome text,"
            "error bytea, next_step integer",
        ),
        RowSet.of(
            "new_effects",
            "run_id uuid, key text, org text, step integer, kind text, status text,"
            "fence integer, calls integer",
        ),
        RowSet.of(
            "changed_effects",
            "run_id uuid, key text, step integer, status text, fence integer, calls integer",
        ),
        RowSet.of(
            "new_history",
            "run_id uuid, seq integer, kind text, step integer, fence integer, details bytea",
        ),
        RowSet.of("dequeued", "run_id uuid, step integer"),
        RowSet.of(
            "enqueued",
            "org text, run_id uuid, step integer, lane text, owner text, slot smallint,"
            "priority smallint, job integer, traceparent text",
        ),
        RowSet.of("dropped_timers", "timer_id bigint"),
        RowSet.of("dropped_step_timers", "run_id uuid, step integer, deadline boolean"),
        RowSet.of(
            "new_timers",
            "org text, run_id uuid, step integer, kind text, internal boolean,"
            "generation integer, after float8, details bytea, at float8",
        ),
    ],
    {"retention": "float8"},
)


async def write_changes(
    connection: Connection, changes: Sequence[Changes], *, retention: float
) -> int:
    """Write and return the database's time in milliseconds since 1970.

    `retention` is how long a start key outlives its run, in seconds. Raises `GuardFailed`.
    """
    await write_scopes(connection, changes)
    await write_children(connection, changes)
    await write_reopened(connection, changes)
    await write_moves(connection, changes)
    await drop_lease_timers(connection, changes)
    row = await connection.fetchrow(
        WRITE.text, *WRITE.arguments(_rows(changes), retention=retention)
    )
    assert row is not None
    await write_standing(connection, changes)
    await write_effects(connection, changes)
    await write_dead_letters(connection, changes)
    await write_orders(connection, changes)
    _check("runs", sum(c.before is not None for c in changes), row["runs"])
    _check("steps", sum(s.before is not None for c in changes for s in c.steps), row["steps"])
    _check("effects", sum(not put.created for c in changes for put in c.effects), row["effects"])
    _check("timers", sum(len(c.drop_timers) for c in changes), row["timers"])
    await write_beginnings(connection, changes)
    await write_capacity(connection, changes)
    await forget_scopes(connection, changes)
    await write_key_moves(connection, changes)
    return int(row["now_ms"])


def _rows(changes: Sequence[Changes]) -> Mapping[str, Iterable[Row]]:
    """Return what each row set of the statement holds."""
    new = [c for c in changes if c.before is None]
    steps = [(c, s) for c in changes for s in c.steps]
    effects = [(c, put) for c in changes for put in c.effects]
    return {
        "new_runs": map(_new_run, new),
        "new_tags": _tags(new),
        "changed_runs": (_changed_run(c) for c in changes if c.before is not None),
        "closed_keys": _closed_keys(changes),
        "new_steps": (_new_step(c, s) for c, s in steps if s.before is None),
        "changed_steps": (_changed_step(c, s) for c, s in steps if s.before is not None),
        "new_attempts": _attempts(changes),
        "new_effects": (_new_effect(c, put) for c, put in effects if put.created),
        "changed_effects": (_changed_effect(c, put) for c, put in effects if not put.created),
        "new_history": _history(changes),
        "dequeued": ((c.run.run.run_id, step) for c in changes for step in c.dequeue),
        "enqueued": _outbox(changes),
        "dropped_timers": ((timer,) for c in changes for timer in c.drop_timers),
        "dropped_step_timers": (
            (c.run.run.run_id, one.step, one.deadline)
            for c in changes
            for one in c.drop_step_timers
        ),
        "new_timers": _timers(changes),
    }


def _check(guard: str, expected: int, found: int) -> None:
    if expected != found:
        raise GuardFailed(guard, expected, found)


def _new_run(changes: Changes) -> Row:
    run, put = changes.run.run, changes.run
    return (
        run.run_id, run.org, run.workflow_id, run.workflow, run.workflow_version, run.status,
        run.revision, run.generation, run.priority, run.next_step, run.ended_nodes,
        run.inner_ended, run.next_seq, run.input, run.output if put.ended else None,
        error_bytes(run.error), run.start_key,
        json.dumps(dict(run.tags)).encode(), run.traceparent, *_parent(run.parent), run.depth,
        run.open_children, run.awaited_children, put.ended,
        put.limits.get(RunLimit.AGE), put.limits.get(RunLimit.DEADLINE), run.pending,
        run.exclusive_key, *_start(put.start),
    )  # fmt: skip


def _parent(parent: Parent | None) -> Row:
    return (None, None, False) if parent is None else (parent.run_id, parent.step, parent.told)


def _changed_run(changes: Changes) -> Row:
    run, before = changes.run.run, changes.before
    assert before is not None
    return (
        run.run_id, before.run.revision, run.status, run.revision, run.generation,
        run.scope_generation, run.next_step, run.ended_nodes, run.inner_ended, run.next_seq,
        run.open_children, run.awaited_children, run.output, error_bytes(run.error),
        changes.run.ended,
        changes.run.limits.get(RunLimit.AGE), changes.run.limits.get(RunLimit.DEADLINE),
        run.pending, run.begun_ms,
    )  # fmt: skip


def _start(start: Instant | None) -> tuple[float | None, float | None]:
    return (start.after, start.at) if start is not None else (None, None)


def _tags(new: Iterable[Changes]) -> Iterable[Row]:
    for changes in new:
        run = changes.run.run
        for key, value in run.tags.items():
            yield run.run_id, run.org, key, value


def _closed_keys(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        run = one.run.run
        if one.run.ended and run.start_key is not None:
            yield run.org, run.start_key, run.run_id


def _new_step(changes: Changes, change: StepChange) -> Row:
    run, put, step = changes.run.run, change.put, change.put.step
    running = put.lease_for is not None
    return (
        run.run_id, step.step, run.org, step.scope, step.generation, step.node, step.kind,
        step.status, step.lane, step.owner, step.priority, step.fence, step.lease_id,
        put.lease_for if running else None, put.try_for if running else None, step.worker,
        step.failures, step.losses, step.effect_prefix, step.input, step.output,
        error_bytes(step.error), step.traceparent, put.ended, _taken(step), step.ended_rank,
        step.stopping, step.compensable, step.compensates,
    )  # fmt: skip


def _changed_step(changes: Changes, change: StepChange) -> Row:
    put, step, before = change.put, change.put.step, change.before
    assert before is not None
    timed_out = put.expired.timed_out if put.expired is not None else None
    return (
        changes.run.run.run_id, step.step, before.status, before.fence, before.lease_id,
        step.status, step.fence, step.lease_id, step.worker, put.lease_for, put.try_for,
        step.failures, step.losses, step.output, error_bytes(step.error), put.ended, timed_out,
        _taken(step), step.ended_rank, step.stopping, step.undecided,
        step.compensable, *_parked(step),
    )  # fmt: skip


def _parked(step: StepState) -> Row:
    parked = step.parked
    return (None,) * 3 if parked is None else (parked.cause, parked.generation, parked.was)


def _taken(step: StepState) -> str | None:
    return None if step.taken is None else " ".join(step.taken)


def _attempts(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        for a in one.attempts:
            yield (
                one.run.run.run_id, a.step, a.fence, a.lease_id, a.worker, a.outcome,
                error_bytes(a.error), a.next_step,
            )  # fmt: skip


def _new_effect(changes: Changes, put: PutEffect) -> Row:
    run, effect = changes.run.run, put.effect
    return (
        run.run_id, effect.key, run.org, effect.step, effect.kind, effect.status, effect.fence,
        effect.calls,
    )  # fmt: skip


def _changed_effect(changes: Changes, put: PutEffect) -> Row:
    effect = put.effect
    run_id = changes.run.run.run_id
    return (run_id, effect.key, effect.step, effect.status, effect.fence, effect.calls)


def _history(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        for line in one.history:
            details = _encode(line.details) if line.details else None
            yield one.run.run.run_id, line.seq, line.kind, line.step, line.fence, details


def _outbox(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        run = one.run.run
        job = job_of(run.workflow) if one.enqueue else 0
        for step in one.enqueue:
            slot = slot_of(run.run_id, step.step)
            yield (
                run.org, run.run_id, step.step, step.lane, step.owner, slot, step.priority, job,
                step.traceparent,
            )  # fmt: skip


def _timers(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        run = one.run.run
        for timer in one.set_timers:
            yield (
                run.org, timer.to or run.run_id, timer.step, timer.kind,
                timer.kind in INTERNAL_TIMERS, timer.generation, timer.after, timer.details,
                timer.at,
            )  # fmt: skip
