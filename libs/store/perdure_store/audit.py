"""The audit log: lines that say who did what, written in the transaction that does it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from perdure_store.pool import Connection
from perdure_store.sql import sql

NEWEST = (1 << 63) - 1
"""Below this id is every line."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """What was done; `org` is None for what concerns all orgs, `details` is JSON."""

    audit_id: int
    org: str | None
    at: datetime
    actor: str
    action: str
    target: str
    details: bytes


async def audit(
    connection: Connection,
    *,
    org: str | None,
    actor: str,
    action: str,
    target: str,
    details: Mapping[str, object],
) -> None:
    """Add a line, in the caller's transaction."""
    text = json.dumps(details, sort_keys=True).encode()
    await connection.execute(sql("audit.add"), org, actor, action, target, text)


async def read_audit(
    connection: Connection,
    org: str | None,
    *,
    action: str = "",
    target: str = "",
    below: int = NEWEST,
    limit: int,
) -> list[AuditLine]:
    """Return the newest lines of an org with ids less than `below`; None: of no org.

    Empty `action` and `target` match all.
    """
    wanted = (below, limit, action, target)
    if org is None:
        found = await connection.fetch(sql("audit.page_of_installation"), *wanted)
    else:
        found = await connection.fetch(sql("audit.page"), org, *wanted)
    return [AuditLine(**record) for record in found]
