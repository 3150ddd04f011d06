"""Signals and open waits of the runs of a batch: loaded, asked for, written (p6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_bytes
from uuid import UUID

import asyncpg
from perdure_machine.callbacks import SECRET_BYTES
from perdure_machine.changes import Changes
from perdure_machine.events import AnswerCallback, DeliverSignals, SendSignal
from perdure_machine.mailbox import LEAST_WEIGHT, Mailbox, SignalState, WaitState
from perdure_machine.replacing import replace
from perdure_machine.view import RunState, Wanted

from perdure_store.apply.batch import RunEvents
from perdure_store.apply.keys import KeyLocks
from perdure_store.apply.write import GuardFailed
from perdure_store.pool import Connection
from perdure_store.sql import sql

_EMPTY = Mailbox()


@dataclass(frozen=True, slots=True)
class Secret:
    """What a run makes its tokens with; one that is not `kept` was drawn just now."""

    value: bytes
    kept: bool


@dataclass(frozen=True, slots=True)
class MoreMail:
    """What was loaded of a run's mail because a decision asked for it."""

    names: frozenset[str] = frozenset()
    signals: tuple[SignalState, ...] = ()
    owners: Mapping[str, UUID] | None = None
    secret: Secret | None = None

    def added_to(self, mail: Mailbox) -> Mailbox:
        """Return `mail` with this."""
        joined = mail.joined(self.names, self.signals, self.owners or {})
        if self.secret is None:
            return joined
        return replace(joined, secret=self.secret.value, secret_kept=self.secret.kept)


async def load_mailboxes(
    connection: Connection, batch: Iterable[RunEvents]
) -> Mapping[UUID, Mailbox]:
    """Return what the batch's signals need to know of the locked runs that they come to."""
    sent = [
        (one.run_id, event.event)
        for one in batch
        for event in one.events
        if isinstance(event.event, SendSignal | AnswerCallback | DeliverSignals)
    ]
    if not sent:
        return {}
    named = {
        (run_id, _name(event)): None
        for run_id, event in sent
        if not isinstance(event, AnswerCallback)
    }
    waits = await _load_waits(connection, list(named))
    ids = [
        (run, event.signal.signal_id)
        for run, event in sent
        if not isinstance(event, DeliverSignals)
    ]
    known, weights = await _load_known(connection, ids)
    return {
        run_id: Mailbox(waits=waits[run_id], known=known[run_id], weight=weights.get(run_id, 0))
        for run_id, _ in sent
    }


async def load_more_mail(
    connection: Connection, run: RunState, wanted: Wanted, keys: KeyLocks
) -> MoreMail:
    """Claim the keys that a decision asked for; then read, in a later statement, what came."""
    owners = await keys.claim(run.org, run.run_id, wanted.keys) if wanted.keys else None
    signals: tuple[SignalState, ...] = ()
    if wanted.signals:
        rows = await connection.fetch(sql("signals.inbox"), run.run_id, sorted(wanted.signals))
        signals = tuple(map(_signal, rows))
    secret = await _load_secret(connection, run.run_id) if wanted.secret else None
    return MoreMail(wanted.signals, signals, owners, secret)


async def _load_secret(connection: Connection, run_id: UUID) -> Secret:
    """Return the run's secret; a run that has none, or is not there yet, is given a new one."""
    kept = await connection.fetchval(sql("signals.secret"), run_id)
    return Secret(kept or token_bytes(SECRET_BYTES), kept is not None)


async def hold_ended(changes: Sequence[Changes], keys: KeyLocks) -> None:
    """Hold the keys of runs that end, before their start keys are written (R14)."""
    ended = _ended(changes)
    if ended:
        await keys.hold_all_of(ended)
    keys.close()


def _ended(changes: Sequence[Changes]) -> list[UUID]:
    return [one.run.run.run_id for one in changes if one.run.ended and one.run.run.has_mail]


async def write_mail(
    connection: Connection, changes: Sequence[Changes], *, retention: float
) -> None:
    """Write what changed in the runs' mail, after the runs themselves. Raises `GuardFailed`.

    The keys of runs that end are held already, by `hold_ended`.

    `retention` is how long the signals of an ended run are known, in seconds.
    """
    marked = [one.run.run.run_id for one in changes if _is_first_mail(one)]
    if marked:
        await connection.execute(sql("signals.mark_runs"), marked)
    for one in changes:
        if one.mail.secret is not None:
            await connection.execute(
                sql("signals.keep_secret"), one.run.run.run_id, one.mail.secret
            )
    changed = [one for one in changes if one.mail]
    if changed:
        await _write_signals(connection, changed)
        await _write_waits(connection, changed)
    ended = _ended(changes)
    if ended:
        await connection.execute(sql("signals.end_mail"), ended, retention)


async def store_signals(
    connection: Connection,
    signals: Sequence[tuple[str, UUID | None, SignalState]],
    *,
    patience: float,
) -> None:
    """Store signals of orgs, for runs or for nobody yet; these are given up after `patience` s."""
    await connection.execute(
        sql("signals.store"),
        [org for org, _, _ in signals],
        [run_id for _, run_id, _ in signals],
        [signal.key for _, _, signal in signals],
        [signal.signal_id for _, _, signal in signals],
        [signal.name for _, _, signal in signals],
        [signal.data for _, _, signal in signals],
        [signal.seen for _, _, signal in signals],
        patience,
    )


def awaiting(mail: Mailbox) -> Collection[int]:
    """Return the steps that a signal of the batch may end, the oldest of each name."""
    return {waits[0].step for waits in mail.waits.values() if waits}


def _is_first_mail(changes: Changes) -> bool:
    before = changes.before
    return changes.run.run.has_mail and (before is None or not before.run.has_mail)


def _name(event: SendSignal | DeliverSignals) -> str:
    return event.signal.name if isinstance(event, SendSignal) else event.name


async def _load_waits(
    connection: Connection, named: Sequence[tuple[UUID, str]]
) -> Mapping[UUID, dict[str, tuple[WaitState, ...]]]:
    if not named:
        return defaultdict(dict)
    rows = await connection.fetch(
        sql("signals.waits"), [run for run, _ in named], [name for _, name in named]
    )
    found: defaultdict[UUID, dict[str, tuple[WaitState, ...]]] = defaultdict(dict)
    for row in rows:
        of_run = found[row["run_id"]]
        wait = WaitState(row["step"], row["name"], row["correlation_key"])
        of_run[wait.name] = (*of_run.get(wait.name, ()), wait)
    return found


async def _load_known(
    connection: Connection, ids: Sequence[tuple[UUID, str]]
) -> tuple[Mapping[UUID, frozenset[str]], Mapping[UUID, int]]:
    """Return the ids that are known, and what waits, of the runs that signals are sent to."""
    known: defaultdict[UUID, frozenset[str]] = defaultdict(frozenset)
    if not ids:
        return known, {}
    runs = [run for run, _ in ids]
    for row in await connection.fetch(sql("signals.known"), runs, [id_ for _, id_ in ids]):
        known[row["run_id"]] |= {row["signal_id"]}
    weighed = await connection.fetch(sql("signals.weights"), list(set(runs)), LEAST_WEIGHT)
    return known, {row["run_id"]: row["weight"] for row in weighed}


async def _write_signals(connection: Connection, changes: Sequence[Changes]) -> None:
    stored = [(c.run.run.org, c.run.run.run_id, s) for c in changes for s in c.mail.stored]
    if stored:
        await store_signals(connection, stored, patience=0.0)
    taken = [(c.run.run.run_id, t) for c in changes for t in c.mail.taken]
    if taken:
        rows = await connection.fetch(
            sql("signals.take"),
            [run_id for run_id, _ in taken],
            [take.address[0] for _, take in taken],
            [take.address[1] for _, take in taken],
            [take.step for _, take in taken],
        )
        if len(rows) != len(taken):
            raise GuardFailed("signals", len(taken), len(rows))
    noted = [(c.run.run.run_id, address) for c in changes for address in c.mail.noted]
    if noted:
        await connection.execute(
            sql("signals.note"),
            [run_id for run_id, _ in noted],
            [key for _, (key, _) in noted],
            [id_ for _, (_, id_) in noted],
        )


async def _write_waits(connection: Connection, changes: Sequence[Changes]) -> None:
    closed = [(c.run.run.run_id, step) for c in changes for step in c.mail.closed]
    if closed:
        await connection.execute(
            sql("signals.close_waits"), [run for run, _ in closed], [step for _, step in closed]
        )
    opened = [(c.run.run, wait) for c in changes for wait in c.mail.opened]
    if opened:
        await connection.execute(
            sql("signals.open_waits"),
            [run.run_id for run, _ in opened],
            [wait.step for _, wait in opened],
            [run.org for run, _ in opened],
            [wait.name for _, wait in opened],
            [wait.key for _, wait in opened],
        )


def _signal(row: asyncpg.Record) -> SignalState:
    return SignalState(
        row["signal_id"], row["name"], row["data"], row["correlation_key"], row["seen"]
    )
