"""Writes the calls of effects that were begun by themselves, and what people have decided of them.

The rows themselves are written with the batch; this adds what those lack that ride on a lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure_machine.actions import PutEffect
from perdure_machine.changes import Changes

from perdure_store.apply.rowsets import Row, RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

_CALLS = Statement(
    sql("effects.write_calls"),
    [
        RowSet.of(
            "calls",
            "run_id uuid, key text, kind text, status text, token uuid, digest bytea, keep float8,"
            "can_look_up boolean, lookups integer, epoch integer, result bytea, note text,"
            "waiter integer, lease_for float8",
        )
    ],
)
_DECISIONS = Statement(
    sql("effects.write_decisions"),
    [
        RowSet.of(
            "decisions",
            "run_id uuid, org text, key text, decision text, actor text, reason text",
        )
    ],
)


async def drop_lease_timers(connection: Connection, changes: Sequence[Changes]) -> None:
    """Delete the timers of leases that have ended, before new ones are set."""
    dropped = [
        (c.run.run.run_id, key.encode())
        for c in changes
        if c.before is not None
        for key in c.drop_effect_timers
    ]
    if dropped:
        runs, keys = zip(*dropped, strict=True)
        delivered = [timer_id for c in changes for timer_id in c.drop_timers]
        await connection.execute(sql("effects.drop_lease_timers"), runs, keys, delivered)


async def write_effects(connection: Connection, changes: Sequence[Changes]) -> None:
    """Write what the ledger keeps of calls, after their rows."""
    effects = [(c, put) for c in changes for put in c.effects]
    calls = [_call(c, put) for c, put in effects if put.effect.call is not None]
    if calls:
        await connection.execute(_CALLS.text, *_CALLS.arguments({"calls": calls}))
    kinds = [
        (c.run.run.run_id, put.effect.key, put.effect.kind)
        for c, put in effects
        if put.effect.call is None and _was_other(c, put)
    ]
    if kinds:
        await connection.execute(sql("effects.write_kinds"), *zip(*kinds, strict=True))
    decisions = list(_decisions(changes))
    if decisions:
        arguments = _DECISIONS.arguments({"decisions": decisions})
        await connection.execute(_DECISIONS.text, *arguments)


def _was_other(changes: Changes, put: PutEffect) -> bool:
    before = changes.before.effects.get(put.effect.key) if changes.before is not None else None
    return before is not None and before.kind != put.effect.kind


def _call(changes: Changes, put: PutEffect) -> Row:
    effect, call = put.effect, put.effect.call
    assert call is not None
    return (
        changes.run.run.run_id, effect.key, effect.kind, effect.status, call.token, call.digest,
        call.keep, call.can_look_up, call.lookups, call.epoch, call.result, call.note,
        call.waiter, put.lease_for,
    )  # fmt: skip


def _decisions(changes: Iterable[Changes]) -> Iterable[Row]:
    for one in changes:
        run = one.run.run
        for made in one.decisions:
            yield run.run_id, run.org, made.key, made.decision, made.actor, made.reason
