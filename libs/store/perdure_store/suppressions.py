"""Suppression lists: whom work must not be about, by org and purpose (design section 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg
from perdure_runtime import fail_points

from perdure_store.audit import audit
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_SUPPRESSION = fail_points.declare("store.commit_suppression")

FIRST = b""
"""Stands before every hash."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """An entry: work about the subject of this hash is forbidden, for a purpose or, `*`, for every.

    `asked_by` put it there, for `reason`; `since` is None for one that is asked for.
    """

    org: str
    subject_hash: bytes
    purpose: str
    reason: str
    asked_by: str
    since: datetime | None = None


async def add_suppression(connection: Connection, asked: Suppression) -> bool:
    """Put a subject on a list; return whether that is new.

    Waits for every hand-out that read the list before: what is handed out after the return was
    looked up with the entry.
    """
    return await _change(connection, asked, "consent.add", asked.reason, asked.asked_by)


async def remove_suppression(connection: Connection, asked: Suppression) -> bool:
    """Take a subject off a list; return whether it was there."""
    return await _change(connection, asked, "consent.remove")


async def _change(connection: Connection, asked: Suppression, query: str, *values: str) -> bool:
    async with transaction(connection, COMMIT_SUPPRESSION):
        await connection.execute(sql("consent.lock_subject"), asked.subject_hash)
        changed: bool = await connection.fetchval(
            sql(query), asked.org, asked.subject_hash, asked.purpose, *values
        )
        if changed:
            await audit(
                connection,
                org=asked.org,
                actor=asked.asked_by,
                action=query.replace("consent", "suppression"),
                target=asked.subject_hash.hex(),
                details={"purpose": asked.purpose, "reason": asked.reason},
            )
    return changed


async def suppressions_of(
    connection: Connection, org: str, subject_hash: bytes
) -> list[Suppression]:
    """Return the lists of an org that a subject is on."""
    rows = await connection.fetch(sql("consent.lists_of"), org, subject_hash)
    return [_suppression(org, row) for row in rows]


async def list_suppressions(
    connection: Connection, org: str, purpose: str, *, after: tuple[bytes, str], limit: int
) -> Sequence[Suppression]:
    """Return the next entries of an org's lists, only those for `purpose` if it is not empty."""
    rows = await connection.fetch(sql("consent.list"), org, purpose, *after, limit)
    return [_suppression(org, row) for row in rows]


def _suppression(org: str, row: asyncpg.Record) -> Suppression:
    return Suppression(
        org,
        row["subject_hash"],
        row["purpose"],
        row["reason"],
        row["asked_by"],
        row["created_at"],
    )
