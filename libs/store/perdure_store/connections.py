"""Connections: made, repaired and removed by operators.

Nobody who changes one holds a run; credentials come and go sealed. What a person changes is told in
the audit log, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

import asyncpg
from perdure_machine.capacity import cause_of
from perdure_runtime import fail_points
from perdure_runtime.errors import FieldViolation, InvalidArgument, NotFound, Reason

from perdure_store.audit import audit
from perdure_store.causes import raise_cause
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_CONNECTIONS = fail_points.declare("store.commit_connections")


@dataclass(frozen=True, slots=True)
class Sealed:
    """Encrypted credentials, and the id of the key that opens them."""

    key_id: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator says of a connection. None for any number of steps at once, and any rate.

    `rate` is steps a second, `burst` how many of them at once; after `max_failures` in a row the
    breaker opens for `open_for` seconds, longer each time. Without `sealed` the credentials stay.
    """

    name: str
    base_url: str = ""
    scheme: str = "none"
    sealed: Sealed | None = None
    slots: int | None = None
    rate: float | None = None
    burst: float = 1.0
    max_failures: int = 5
    open_for: float = 30.0
    probe_path: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """A connection as people see it; nothing in it is secret. `opens_in` is in seconds."""

    name: str
    base_url: str
    scheme: str
    has_credentials: bool
    slots: int | None
    rate: float | None
    burst: float
    max_failures: int
    open_ms: int
    failures: int
    disabled: bool
    refused: bool
    generation: int
    probe_path: str | None
    created_at: datetime
    changed_at: datetime
    tripped: bool
    opens_in: float
    in_use: int
    blocked: int
    parked: int

    @property
    def health(self) -> str:
        """Return `disabled`, `reconnect`, `open`, `half_open` or `ok`."""
        if self.disabled:
            return "disabled"
        if self.refused:
            return "reconnect"
        if self.tripped:
            return "open" if self.opens_in > 0 else "half_open"
        return "ok"


@dataclass(frozen=True, slots=True)
class Measures:
    """How many places are held and rows blocked, and how many connections are how."""

    slots_in_use: int = 0
    blocked_rows: int = 0
    open: int = 0
    half_open: int = 0
    closed: int = 0
    unusable: int = 0


@dataclass(frozen=True, slots=True)
class SealedConnection:
    """What of a connection goes to a worker, still sealed."""

    org: str
    name: str
    generation: int
    base_url: str
    scheme: str
    sealed: Sealed | None
    disabled: bool
    refused: bool


async def put_connection(
    connection: Connection, org: str, settings: Settings, *, actor: str
) -> bool:
    """Make a connection or give it other settings; return whether it is new.

    A new one, and one with new credentials, brings back what was parked on it. What is missing of
    its places is made; of those beyond a lowered limit none is taken any more.

    Raises InvalidArgument for an address that the credentials it has were not given for.
    """
    one = settings
    async with transaction(connection, COMMIT_CONNECTIONS):
        known = await connection.fetchrow(sql("connections.lock_one"), org, one.name)
        if known is not None and known["has_credentials"] and one.sealed is None:
            _refuse_leading_elsewhere(known["base_url"], one.base_url)
        repairs = known is None or one.sealed is not None
        if known is None or repairs:
            generation = await raise_cause(connection, org, cause_of(one.name))
        else:
            generation = known["generation"]
        await connection.execute(
            sql("connections.put"), org, one.name, one.base_url, one.scheme,
            one.sealed is not None, one.slots, one.rate, one.burst, one.max_failures,
            int(one.open_for * 1000), one.probe_path, generation,
        )  # fmt: skip
        await _put_what_hangs_on_it(connection, org, one)
        if repairs:
            await connection.execute(sql("connections.repair"), org, one.name, generation)
        await connection.execute(sql("capacity.unblock"))
        after = await connection.fetchrow(sql("connections.lock_one"), org, one.name)
        assert after is not None
        details = {
            "before": _told(known) if known is not None else None,
            "after": _told(after),
            "new_credentials": one.sealed is not None,
        }
        await _audit(connection, org, one.name, actor, "put", details)
    return known is None


def _refuse_leading_elsewhere(was: str, wanted: str) -> None:
    """Refuse what would send credentials that nobody may read to an address that somebody chose."""
    if was and _origin(was) != _origin(wanted):
        problem = "are required again where base_url leads elsewhere: they were not given for that"
        raise InvalidArgument(
            f"credentials {problem}", violations=[FieldViolation("credentials", problem)]
        )


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


async def repair_connection(connection: Connection, org: str, name: str, *, actor: str) -> None:
    """Let steps use a connection again, and bring back those parked on it. Raises `NotFound`."""
    async with transaction(connection, COMMIT_CONNECTIONS):
        if await connection.fetchrow(sql("connections.lock_one"), org, name) is None:
            raise no_connection(name)
        generation = await raise_cause(connection, org, cause_of(name))
        await connection.execute(sql("connections.repair"), org, name, generation)
        await connection.execute(sql("capacity.unblock"))
        await _audit(connection, org, name, actor, "repair", {"generation": generation})


async def disable_connection(connection: Connection, org: str, name: str, *, actor: str) -> None:
    """Let no step use a connection until it is repaired. Raises `NotFound`."""
    await _change(connection, org, name, actor, "disable")


async def delete_connection(connection: Connection, org: str, name: str, *, actor: str) -> None:
    """Remove a connection; steps that need it are parked until there is one. Raises `NotFound`."""
    await _change(connection, org, name, actor, "delete")


async def unblock(connection: Connection) -> int:
    """Let blocked rows go whose connections have room again; return how many."""
    async with transaction(connection, COMMIT_CONNECTIONS):
        return len(await connection.fetch(sql("capacity.unblock")))


async def free_leaked(connection: Connection, *, limit: int) -> int:
    """Give back places that no lease holds any more; return how many."""
    async with transaction(connection, COMMIT_CONNECTIONS):
        return len(await connection.fetch(sql("capacity.free_leaked"), limit))


async def needs_unblocking(connection: Connection) -> bool:
    """Tell whether there are blocked rows whose connections have room."""
    return bool(await connection.fetchval(sql("capacity.has_unblockable")))


async def needs_mending(connection: Connection) -> bool:
    """Tell whether no lease holds some places, or nothing brings some parked steps back."""
    if await connection.fetchval(sql("capacity.count_leaked")):
        return True
    return bool(await connection.fetch(sql("causes.forgotten"), 1))


async def measure(connection: Connection) -> Measures:
    """Return how connections are, all orgs together."""
    row = await connection.fetchrow(sql("connections.measure"))
    assert row is not None
    return Measures(**row)


async def load_sealed(
    connection: Connection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], SealedConnection]:
    """Return connections with their sealed credentials, by org and name."""
    orgs, plain = zip(*names, strict=True)
    rows = await connection.fetch(sql("connections.sealed"), orgs, plain)
    return {(row["org"], row["name"]): _sealed(row) for row in rows}


async def list_connections(
    connection: Connection, org: str, *, after: str = "", name: str = "", limit: int
) -> list[ConnectionState]:
    """Return the next connections of an org by name, or the one of that name."""
    rows = await connection.fetch(sql("connections.list"), org, after, name, limit)
    return [ConnectionState(**row) for row in rows]


def no_connection(name: str) -> NotFound:
    """Say that the org has no such connection."""
    return NotFound(f"there is no connection {name}", reason=Reason.CONNECTION_NOT_FOUND)


async def _change(connection: Connection, org: str, name: str, actor: str, command: str) -> None:
    async with transaction(connection, COMMIT_CONNECTIONS):
        known = await connection.fetchrow(sql("connections.lock_one"), org, name)
        if known is None:
            raise no_connection(name)
        await connection.execute(sql(f"connections.{command}"), org, name)
        await connection.execute(sql("capacity.unblock"))
        await _audit(connection, org, name, actor, command, {"before": _told(known)})


async def _put_what_hangs_on_it(connection: Connection, org: str, one: Settings) -> None:
    """Replace the credentials that were given, and make the places that are missing."""
    if one.sealed is not None:
        secret = one.sealed.key_id, one.sealed.text
        await connection.execute(sql("connections.put_secret"), org, one.name, *secret)
    if one.slots is not None:
        await connection.execute(sql("connections.make_slots"), org, one.name, one.slots)


async def _audit(
    connection: Connection,
    org: str,
    name: str,
    actor: str,
    command: str,
    details: Mapping[str, object],
) -> None:
    action = f"connection.{command}"
    await audit(connection, org=org, actor=actor, action=action, target=name, details=details)


def _told(row: asyncpg.Record) -> dict[str, object]:
    """Return a connection as the audit log tells it; its credentials are in another table."""
    return dict(row)


def _sealed(row: asyncpg.Record) -> SealedConnection:
    sealed = Sealed(row["key_id"], row["sealed"]) if row["sealed"] is not None else None
    return SealedConnection(
        row["org"], row["name"], row["generation"], row["base_url"], row["scheme"], sealed,
        row["disabled"], row["refused"],
    )  # fmt: skip
