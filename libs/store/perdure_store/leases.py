"""Renewals: the only writes to a step that take no lock on its run (R1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

import asyncpg
from perdure_runtime import fail_points

from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import write

COMMIT_RENEWALS = fail_points.declare("store.commit_renewals")


@dataclass(frozen=True, slots=True)
class HeldLease:
    """An acquisition as its holder names it."""

    org: str
    run_id: UUID
    step: int
    fence: int
    lease_id: UUID


class Renewal(Enum):
    """How a renewal ended."""

    RENEWED = auto()
    LOST = auto()
    AGAIN = auto()


@dataclass(frozen=True, slots=True)
class RenewalAnswer:
    """`lease_left` seconds are left of a renewed lease; `cancel_requested`: it is to end early."""

    renewal: Renewal
    lease_left: float = 0.0
    cancel_requested: bool = False


async def renew_leases(connection: Connection, leases: Sequence[HeldLease]) -> list[RenewalAnswer]:
    """Extend leases to their lane's length, never past the try's timeout; answers in order."""
    rows = await write(
        connection,
        COMMIT_RENEWALS,
        sql("leases.renew"),
        [one.org for one in leases],
        [one.run_id for one in leases],
        [one.step for one in leases],
        [one.fence for one in leases],
        [one.lease_id for one in leases],
    )
    return [_answer(row) for row in rows]


async def is_held(connection: Connection, lease: HeldLease) -> bool:
    """Tell whether a lease lives, and its step still runs under it."""
    asked = lease.org, lease.run_id, lease.step, lease.fence, lease.lease_id
    return bool(await connection.fetchval(sql("leases.is_held"), *asked))


def _answer(row: asyncpg.Record) -> RenewalAnswer:
    if row["lease_left"] is not None:
        return RenewalAnswer(Renewal.RENEWED, row["lease_left"], row["closed"])
    return RenewalAnswer(Renewal.AGAIN if row["held"] else Renewal.LOST)
