"""Signals by correlation key: the first of their two steps, and what sweeps look for (p6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from perdure_machine.decide.signals import refuse_full
from perdure_machine.mailbox import LEAST_WEIGHT, SignalState
from perdure_machine.replacing import replace
from perdure_runtime import fail_points
from perdure_runtime.errors import PerdureError, ResourceExhausted

from perdure_store.apply.keys import KeyLocks, OrgKey
from perdure_store.apply.mail import store_signals
from perdure_store.apply.parting import together_or_apart
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.sweeps import NO_RUN
from perdure_store.transaction import transaction, write

COMMIT_SIGNALS = fail_points.declare("store.commit_signals")
COMMIT_DROP_SIGNALS = fail_points.declare("store.commit_drop_signals")
COMMIT_DROP_FREE_KEYS = fail_points.declare("store.commit_drop_free_keys")


_Place = tuple[str, str | None, str]
"""Org, key and id of a signal."""


@dataclass(frozen=True, slots=True)
class KeyedSignal:
    """A signal that an org sends by the signal's key."""

    org: str
    signal: SignalState

    @property
    def key(self) -> OrgKey:
        """The key, in its org."""
        assert self.signal.key is not None
        return (self.org, self.signal.key)


@dataclass(frozen=True, slots=True)
class Kept:
    """The signal is stored; `new` by this request. `run_id` is whose it is, None: nobody's yet."""

    new: bool
    run_id: UUID | None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Signals of this name were stored for the run, which has an open wait that they fit."""

    org: str
    run_id: UUID
    name: str


async def keep_signals(
    connection: Connection, signals: Sequence[KeyedSignal], *, patience: float
) -> list[Kept | PerdureError]:
    """Store signals in one transaction that locks keys and no run; answer each in order.

    A key that is nobody's keeps its signals for `patience` seconds. Where an answer names a run,
    the run is to be told, by an event of its own.
    """
    return await together_or_apart(signals, partial(_keep_all, connection, patience), what="signal")


async def _keep_all(
    connection: Connection, patience: float, signals: Sequence[KeyedSignal]
) -> list[Kept | PerdureError]:
    async with transaction(connection, COMMIT_SIGNALS):
        owners = await KeyLocks(connection).lock({one.key for one in signals})
        known = await _known(connection, signals)
        keeping = _Keeping(owners, known, await _weights(connection, list(owners)))
        answers = [keeping.answer(one) for one in signals]
        if keeping.new:
            await store_signals(connection, keeping.new, patience=patience)
    return answers


@dataclass(slots=True)
class _Keeping:
    """What is known of the locked keys while signals by them are taken in; `new` are to store."""

    owners: Mapping[OrgKey, UUID | None]
    known: dict[_Place, UUID | None]
    weights: Counter[OrgKey]
    new: list[tuple[str, UUID | None, SignalState]] = field(default_factory=list)

    def answer(self, one: KeyedSignal) -> Kept | PerdureError:
        """Take one in, unless it is there already or its inbox is full."""
        place = (one.org, *one.signal.address)
        if place in self.known:
            return Kept(False, self.known[place])
        try:
            refuse_full(self.weights[one.key] + one.signal.weight)
        except ResourceExhausted as full:
            return full
        owner = self.owners[one.key]
        self.weights[one.key] += one.signal.weight
        self.known[place] = owner
        self.new.append((one.org, owner, replace(one.signal, seen=False)))
        return Kept(True, owner)


async def undelivered(
    connection: Connection, after: Undelivered | None, *, limit: int, older_than: float
) -> list[Undelivered]:
    """Return what runs await and were not told of for `older_than` seconds, after `after`."""
    rows = await connection.fetch(
        sql("signals.undelivered"),
        after.run_id if after else NO_RUN,
        after.name if after else "",
        limit,
        older_than,
    )
    return [Undelivered(row["org"], row["run_id"], row["name"]) for row in rows]


async def drop_signals(connection: Connection, *, limit: int) -> int:
    """Delete signals whose time is over; return how many."""
    rows = await write(connection, COMMIT_DROP_SIGNALS, sql("signals.drop_expired"), limit)
    return len(rows)


async def drop_free_keys(connection: Connection, *, limit: int, older_than: float) -> int:
    """Delete keys that have been nobody's for `older_than` seconds; return how many."""
    rows = await write(
        connection, COMMIT_DROP_FREE_KEYS, sql("signals.drop_free_keys"), limit, older_than
    )
    return len(rows)


async def _known(
    connection: Connection, signals: Sequence[KeyedSignal]
) -> dict[_Place, UUID | None]:
    rows = await connection.fetch(
        sql("signals.known_by_key"),
        [one.org for one in signals],
        [one.signal.key for one in signals],
        [one.signal.signal_id for one in signals],
    )
    return {(r["org"], r["correlation_key"], r["signal_id"]): r["run_id"] for r in rows}


async def _weights(connection: Connection, keys: Sequence[OrgKey]) -> Counter[OrgKey]:
    rows = await connection.fetch(
        sql("signals.weights_by_key"),
        [org for org, _ in keys],
        [key for _, key in keys],
        LEAST_WEIGHT,
    )
    return Counter({(row["org"], row["correlation_key"]): row["weight"] for row in rows})
