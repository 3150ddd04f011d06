"""The connections of the engine in memory: places, breakers, causes, and who is blocked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import inf
from uuid import UUID

from perdure_machine.actions import SetTimer
from perdure_machine.capacity import Reservation, Tried, Verdict, Wish, cause_of
from perdure_machine.memory.rows import RunRow, TimerRow
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.states import EffectStatus, StepStatus, TimerKind
from perdure_machine.view import Parked, View, ViewTooNarrow, Wanted

OrgName = tuple[str, str]
"""An org, and the name of a connection or a cause of it."""

MAX_OPEN = 600.0
"""Longest time, in seconds, that repeated failures keep a breaker open."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection bears: None for any number of steps at once, and for any rate a second.

    A breaker opens after `failures` in a row, for `open_for` seconds.
    """

    slots: int | None = None
    rate: float | None = None
    burst: float = 1.0
    failures: int = 5
    open_for: float = 30.0


@dataclass(slots=True)
class ConnectionRow:
    """A connection; `holders` are runs, steps and leases. Instants are seconds."""

    limits: Limits
    tokens: float
    filled_at: float
    disabled: bool = False
    refused: int = 0  # the generation of the credentials that were refused
    failures: int = 0
    opened: int = 0  # how often in a row the breaker opened
    open_until: float | None = None  # None while it is closed
    probe: UUID | None = None  # the lease of the one step that tries a half-open breaker
    holders: set[tuple[UUID, int, UUID]] = field(default_factory=set)


class Connections:
    """The connections of all orgs. What is put, repaired and told here takes effect at once."""

    def __init__(self, runs: Mapping[UUID, RunRow], timer_ids: count[int]) -> None:
        self._runs = runs
        self._timer_ids = timer_ids
        self._rows: dict[OrgName, ConnectionRow] = {}
        self._causes: dict[OrgName, int] = {}
        self._pending: list[tuple[OrgName, UUID, Wish]] = []

    def put(self, org: str, name: str, limits: Limits, now: float) -> None:
        """Make or change a connection, and bring back what waited for it."""
        row = self._rows.get((org, name))
        if row is None:
            self._rows[org, name] = ConnectionRow(limits, limits.burst, now)
            self.repair(org, name, now)
        else:
            row.limits = limits
        self.unblock(now)

    def disable(self, org: str, name: str, now: float) -> None:
        """Let no step use a connection until it is repaired."""
        self._rows[org, name].disabled = True
        self.unblock(now)

    def repair(self, org: str, name: str, now: float) -> None:
        """Let steps use a connection again, and bring back those that are parked on it."""
        row = self._rows[org, name]
        row.disabled = False
        row.open_until, row.failures, row.opened, row.probe = None, 0, 0, None
        self.raise_cause(org, cause_of(name), now)
        self.unblock(now)

    def raise_cause(self, org: str, cause: str, now: float) -> None:
        """Bring back the steps that are parked on a cause."""
        self._causes[org, cause] = self._generation(org, cause) + 1
        timer = SetTimer(
            TimerKind.CAUSE_GONE, None, 0.0, self._causes[org, cause], f"0 {cause}".encode()
        )
        for run in self._runs.values():
            parked = any(_is_parked(one.state.parked, cause) for one in run.steps.values())
            if run.state.org == org and parked:
                number = next(self._timer_ids)
                run.timers[number] = TimerRow(number, org, run.state.run_id, timer, now)

    def tell(self, org: str, tried: Tried, now: float) -> None:
        """Count how a try went (the breaker), and note credentials that were refused."""
        row = self._rows.get((org, tried.connection))
        if row is None:
            return
        is_probe = row.probe is not None and row.probe == tried.lease_id
        row.probe = None if is_probe else row.probe
        match tried.category:
            case ErrorClass.RETRYABLE:
                row.failures += 1
                is_closed = row.open_until is None
                if is_probe or (is_closed and row.failures >= row.limits.failures):
                    self._open(row, now)
            case ErrorClass.RATE_LIMITED:
                if tried.retry_after is not None:
                    row.open_until = max(row.open_until or 0.0, now + tried.retry_after)
            case ErrorClass.POISON:
                pass
            case _:
                row.failures = 0
                if is_probe:
                    row.opened, row.open_until = 0, None
        generation = self.generation(org, tried.connection)
        if tried.category == ErrorClass.AUTHORISATION and tried.generation in (0, generation):
            row.refused = generation
        self.unblock(now)

    def _open(self, row: ConnectionRow, now: float) -> None:
        row.open_until = now + min(MAX_OPEN, row.limits.open_for * 2**row.opened)
        row.opened += 1

    def widened(self, view: View, wanted: Wanted, now: float) -> View:
        """Return the view with the places, causes and connections that a decision asks for.

        Raises `ViewTooNarrow` for anything else.
        """
        if not (wanted.capacity or wanted.causes):
            raise ViewTooNarrow(wanted)
        org = view.run.org
        places = {
            (wish.step, wish.lease_id): self._reserve(org, view.run.run_id, wish, now)
            for wish in wanted.capacity
        }
        causes = {cause: self._generation(org, cause) for cause in wanted.causes}
        return replace(
            view,
            reservations={**view.reservations, **places},
            causes={**view.causes, **causes},
        )

    def write(self, run: RunRow, freed: Iterable[tuple[int, UUID]], now: float) -> None:
        """Give back the places of attempts that ended, and take those that were granted.

        A call that an attempt began and that may still be under way keeps its place.
        """
        gone = {(run.state.run_id, *one) for one in freed if not _may_call(run, one[0], now)}
        for row in self._rows.values():
            row.holders -= gone
        for key, run_id, wish in self._pending:
            step = run.steps.get(wish.step)
            state = step.state if step is not None else None
            if state is not None and (state.status, state.lease_id) == (
                StepStatus.RUNNING,
                wish.lease_id,
            ):
                self._take(self._rows[key], run_id, wish, now)
        self._pending.clear()
        self.unblock(now)

    def mend(self, now: float) -> None:
        """Give back places that neither a lease nor an open call holds any more."""
        for row in self._rows.values():
            row.holders = {one for one in row.holders if self._holds(*one, now)}
        self.unblock(now)

    def unblock(self, now: float) -> None:
        """Let go as many of the blocked steps as their connections have room for."""
        for run in self._runs.values():
            for step, name in list(run.blocked.items()):
                if self.has_room(run.state.org, name, now):
                    del run.blocked[step]

    def has_room(self, org: str, name: str, now: float) -> bool:
        """Tell whether one more step may ask, beside those that are about to."""
        row = self._rows.get((org, name))
        if row is None or row.disabled or row.refused == self.generation(org, name):
            return True
        asking = sum(
            connection == name and step not in run.blocked
            for run in self._runs.values()
            if run.state.org == org
            for step, connection in run.connected.items()
            if step in run.outbox
        )
        return _room(row, now) > asking

    def generation(self, org: str, name: str) -> int:
        """Return the generation of a connection's cause."""
        return self._generation(org, cause_of(name))

    def stands(self, org: str, cause: str, generation: int) -> bool:
        """Tell whether nobody repaired a cause since."""
        return self._generation(org, cause) == generation

    def in_use(self, org: str, name: str) -> int:
        """Return how many steps hold a place."""
        return len(self._rows[org, name].holders)

    def is_open(self, org: str, name: str, now: float) -> bool:
        """Tell whether a connection's breaker lets nothing through."""
        until = self._rows[org, name].open_until
        return until is not None and until > now

    def _holds(self, run_id: UUID, step: int, lease_id: UUID, now: float) -> bool:
        run = self._runs[run_id]
        state = run.steps[step].state
        runs = (state.status, state.lease_id) == (StepStatus.RUNNING, lease_id)
        return runs or _may_call(run, step, now)

    def _generation(self, org: str, cause: str) -> int:
        return self._causes.setdefault((org, cause), 1)

    def _reserve(self, org: str, run_id: UUID, wish: Wish, now: float) -> Reservation:
        name, row = wish.connection, self._rows.get((org, wish.connection))
        generation = self.generation(org, name)
        if row is None or row.disabled or row.refused == generation:
            why = _why_unusable(row)
            return Reservation(name, Verdict.UNUSABLE, generation, why)
        pending = sum(key == (org, name) for key, _, _ in self._pending)
        if _room(row, now) <= pending:
            return Reservation(name, Verdict.BLOCKED, generation)
        self._pending.append(((org, name), run_id, wish))
        return Reservation(name, Verdict.HELD, generation)

    def _take(self, row: ConnectionRow, run_id: UUID, wish: Wish, now: float) -> None:
        if row.limits.slots is not None:
            row.holders.add((run_id, wish.step, wish.lease_id))
        if row.open_until is not None:
            row.probe = wish.lease_id
        row.tokens, row.filled_at = _tokens(row, now) - 1, now


def _may_call(run: RunRow, step: int, now: float) -> bool:
    """Tell whether a call that a step began may still be under way."""
    return any(
        row.state.step == step
        and row.state.status is EffectStatus.IN_FLIGHT
        and (row.lease_expires_at or 0.0) > now
        for row in run.effects.values()
    )


def _why_unusable(row: ConnectionRow | None) -> str:
    if row is None:
        return "does not exist"
    return "is disabled" if row.disabled else "was refused: reconnect it"


def _room(row: ConnectionRow, now: float) -> float:
    if row.open_until is not None:
        return float(row.open_until <= now and row.probe is None)
    slots = inf if row.limits.slots is None else row.limits.slots - len(row.holders)
    return min(slots, inf if row.limits.rate is None else int(_tokens(row, now) + 1e-6))


def _tokens(row: ConnectionRow, now: float) -> float:
    if row.limits.rate is None:
        return row.tokens
    return min(row.limits.burst, row.tokens + row.limits.rate * (now - row.filled_at))


def _is_parked(parked: Parked | None, cause: str) -> bool:
    return parked is not None and parked.cause == cause
