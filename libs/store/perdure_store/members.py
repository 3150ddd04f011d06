"""Members of orgs: people, with the roles that bound what their keys may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure_runtime import fail_points
from perdure_runtime.errors import NotFound, Reason

from perdure_store.audit import audit
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_MEMBER = fail_points.declare("store.commit_member")


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an org."""

    member: str
    roles: list[str]
    created_at: datetime


async def put_member(
    connection: Connection, org: str, member: str, roles: Sequence[str], *, by: str
) -> None:
    """Make a member or change its roles; the same once more changes nothing."""
    async with transaction(connection, COMMIT_MEMBER):
        before = await connection.fetchval(sql("keys.lock_member"), org, member)
        if before == list(roles):
            return
        await connection.execute(sql("keys.put_member"), org, member, list(roles))
        details = {"before": before, "after": list(roles)}
        await audit(
            connection, org=org, actor=by, action="member.put", target=member, details=details
        )


async def remove_member(
    connection: Connection, org: str, member: str, *, by: str, reason: str
) -> None:
    """Remove a member, whose keys are revoked; one that is not there is removed already."""
    async with transaction(connection, COMMIT_MEMBER):
        if await connection.fetchval(sql("keys.lock_member"), org, member) is None:
            return
        revoked = await connection.fetch(sql("keys.revoke_of_member"), org, member, by)
        await connection.execute(sql("keys.drop_member"), org, member)
        details = {"reason": reason, "revoked": sorted(row["key_id"] for row in revoked)}
        await audit(
            connection, org=org, actor=by, action="member.remove", target=member, details=details
        )


async def list_members(
    connection: Connection, org: str, *, after: str = "", only: str = "", limit: int
) -> list[Member]:
    """Return the next members of an org by name, or the one called `only`."""
    rows = await connection.fetch(sql("keys.members"), org, after, only, limit)
    return [Member(**row) for row in rows]


def member_not_found(member: str) -> NotFound:
    """The error for a member that the org does not have."""
    return NotFound(
        f"there is no member {member!r}",
        reason=Reason.MEMBER_NOT_FOUND,
        metadata={"member": member},
    )
