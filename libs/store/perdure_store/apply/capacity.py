"""Places at connections for the steps of one transaction (R14: locked before any run).

What may be taken is locked first and written last, for what was granted only; so an item that is
skipped or refused gives its place back by the end of the transaction. What else a step needs beside
a worker is reserved here too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg
from perdure_machine.capacity import Reservation, Verdict, Wish
from perdure_machine.states import StepStatus
from perdure_machine.view import View

from perdure_store.pool import Connection
from perdure_store.sql import sql

OrgName = tuple[str, str]
"""An org and the name of a connection of it."""

Acquisition = tuple[UUID, int, UUID]
"""A run, a step of it, and the lease id that it is wanted under."""


class CapacityNotTaken(Exception):
    """A decision needs a place that must be reserved before the run's lock: begin with it."""

    def __init__(self, wanted: Asked) -> None:
        super().__init__(f"a place at {wanted.connection} is to be reserved first")
        self.wanted = wanted


@dataclass(frozen=True, slots=True)
class Asked:
    """A place that a step of a run asks for."""

    run_id: UUID
    org: str
    step: int
    lease_id: UUID
    connection: str

    @classmethod
    def by(cls, run_id: UUID, org: str, wish: Wish) -> Asked:
        """Return what a decision on a run of `org` asks for."""
        return cls(run_id, org, wish.step, wish.lease_id, wish.connection)


@dataclass(frozen=True, slots=True)
class _Held:
    asked: Asked
    slot: int | None  # None where any number of steps may run


@dataclass(slots=True)
class _Standing:
    """A connection as this transaction sees it; `left` is how many more steps it bears."""

    row: asyncpg.Record
    left: int
    free: list[int] = field(default_factory=list)
    held: list[_Held] = field(default_factory=list)


class Places:
    """What one transaction has reserved at connections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._standings: dict[OrgName, _Standing] = {}
        self._reservations: dict[UUID, dict[tuple[int, UUID], Reservation]] = defaultdict(dict)

    async def find(self, acquisitions: Iterable[Acquisition]) -> list[Asked]:
        """Return what steps that are about to be leased need, as their outbox rows say."""
        leases = {(run_id, step): lease_id for run_id, step, lease_id in acquisitions}
        if not leases:
            return []
        runs, steps = zip(*leases, strict=True)
        rows = await self._connection.fetch(sql("capacity.wishes"), runs, steps)
        return [
            Asked(r["run_id"], r["org"], r["step"], leases[r["run_id"], r["step"]], r["connection"])
            for r in rows
        ]

    async def reserve(self, asked: Sequence[Asked], *, wait: bool = True) -> None:
        """Reserve what there is; without `wait`, under a run's lock, no row is waited for."""
        if not asked:
            return
        wanted: dict[OrgName, list[Asked]] = defaultdict(list)
        for one in asked:
            wanted[one.org, one.connection].append(one)
        new = sorted(wanted.keys() - self._standings.keys())
        if new:
            await self._look(new, wait=wait)
        await self._lock_slots({name: len(found) for name, found in wanted.items()})
        for name, found in wanted.items():
            for one in found:
                reservation = _reserved(self._standings[name], one)
                self._reservations[one.run_id][one.step, one.lease_id] = reservation

    def of(self, run_id: UUID) -> Mapping[tuple[int, UUID], Reservation]:
        """Return what was reserved for a run, by step and lease id."""
        return self._reservations.get(run_id, {})

    async def write(self, views: Mapping[UUID, View]) -> None:
        """Take what was granted in `views`, the views after all decisions."""
        granted = [
            (name, standing, held)
            for name, standing in sorted(self._standings.items())
            for held in standing.held
            if _is_granted(held.asked, views.get(held.asked.run_id))
        ]
        slots = [(held.asked, held.slot) for _, _, held in granted if held.slot is not None]
        if slots:
            await self._connection.execute(sql("capacity.take_slots"), *_columns(slots))
        counts: dict[OrgName, list[Asked]] = defaultdict(list)
        for name, standing, held in granted:
            if standing.row["noted"]:
                counts[name].append(held.asked)
        if counts:
            notes = [(found[-1], len(found)) for found in counts.values()]
            await self._connection.execute(sql("capacity.note_grants"), *_columns(notes))

    async def _look(self, names: Sequence[OrgName], *, wait: bool) -> None:
        orgs, plain = zip(*names, strict=True)
        query = sql("capacity.lock" if wait else "capacity.lock_free")
        locked = {(r["org"], r["name"]) for r in await self._connection.fetch(query, orgs, plain)}
        for row in await self._connection.fetch(sql("capacity.read"), orgs, plain):
            name = (row["org"], row["name"])
            is_ours = not row["noted"] or name in locked
            self._standings[name] = _Standing(row, row["bears"] if is_ours else 0)

    async def _lock_slots(self, wanted: Mapping[OrgName, int]) -> None:
        """Lock free places where there is a limit, beside those that are reserved already."""
        asked = [
            (org, name, len(standing.held) + min(count, standing.left), standing.row["slots"])
            for (org, name), count in sorted(wanted.items())
            if (standing := self._standings[org, name]).row["slots"] is not None
            and standing.left > 0
        ]
        if not asked:
            return
        columns = zip(*asked, strict=True)
        for row in await self._connection.fetch(sql("capacity.lock_slots"), *columns):
            standing = self._standings[row["org"], row["connection"]]
            if row["slot"] not in {*standing.free, *(held.slot for held in standing.held)}:
                standing.free.append(row["slot"])


def _reserved(standing: _Standing, asked: Asked) -> Reservation:
    row, name = standing.row, asked.connection
    why = _why_unusable(row)
    if why:
        return Reservation(name, Verdict.UNUSABLE, row["generation"], why)
    limited = row["slots"] is not None
    if standing.left <= 0 or (limited and not standing.free):
        return Reservation(name, Verdict.BLOCKED, row["generation"])
    standing.left -= 1
    standing.held.append(_Held(asked, standing.free.pop(0) if limited else None))
    return Reservation(name, Verdict.HELD, row["generation"])


def _why_unusable(row: asyncpg.Record) -> str:
    if row["missing"]:
        return "does not exist"
    if row["disabled"]:
        return "is disabled"
    return "was refused: reconnect it" if row["refused"] else ""


def _is_granted(asked: Asked, view: View | None) -> bool:
    step = view.steps.get(asked.step) if view is not None else None
    if step is None or step.status is not StepStatus.RUNNING:
        return False
    return step.lease_id == asked.lease_id


def _columns(rows: Iterable[tuple[Asked, int]]) -> Iterable[Sequence[object]]:
    """Return the columns org, connection, number, run, step and lease of the rows."""
    flat = [
        (one.org, one.connection, number, one.run_id, one.step, one.lease_id)
        for one, number in rows
    ]
    return zip(*flat, strict=True)
