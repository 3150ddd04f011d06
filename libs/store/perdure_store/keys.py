"""API keys: made, rotated, revoked and found; each change is told in the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure_runtime import fail_points
from perdure_runtime.errors import AlreadyExists, NotFound, Reason

from perdure_store.audit import audit
from perdure_store.members import member_not_found
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction, write

COMMIT_KEY = fail_points.declare("store.commit_key")


@dataclass(frozen=True, slots=True)
class Secret:
    """What a key is found by, and the SHA-256 of what proves it."""

    prefix: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class KeyAsked:
    """A key as it is to be; `lasts` is seconds, None for good, `rate` calls a second."""

    key_id: str
    org: str
    name: str
    roles: Sequence[str]
    member: str | None = None
    scopes: Sequence[str] = ()
    lasts: float | None = None
    rate: float | None = None
    burst: int | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it stands; `secrets` are how many of its secrets are good."""

    key_id: str
    org: str
    name: str
    member: str | None
    roles: list[str]
    scopes: list[str]
    rate: float | None
    burst: int | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None
    secrets: int


@dataclass(frozen=True, slots=True)
class KnownSecret:
    """What is known of a secret that a call presents.

    `seconds_left` until it or its key expires, None for good; `member_roles` is None for a key
    that is no member's, or whose member is gone.
    """

    prefix: str
    digest: bytes
    key_id: str
    org: str
    name: str
    member: str | None
    roles: list[str]
    scopes: list[str]
    rate: float | None
    burst: int | None
    is_revoked: bool
    member_roles: list[str] | None
    seconds_left: float | None


async def find_secrets(connection: Connection, prefixes: Sequence[str]) -> list[KnownSecret]:
    """Return what is known of these prefixes; of an unknown one nothing."""
    rows = await connection.fetch(sql("keys.find_secrets"), list(prefixes))
    return [KnownSecret(**row) for row in rows]


async def create_key(connection: Connection, asked: KeyAsked, secret: Secret, *, by: str) -> None:
    """Make a key; the same once more changes nothing.

    Raises AlreadyExists, KEY_EXISTS, for a name that another key has, and NotFound,
    MEMBER_NOT_FOUND.
    """
    async with transaction(connection, COMMIT_KEY):
        if asked.member is not None:
            found = await connection.fetchval(sql("keys.share_member"), asked.org, asked.member)
            if found is None:
                raise member_not_found(asked.member)
        await _insert(connection, asked, secret, by)


async def bootstrap_key(
    connection: Connection, asked: KeyAsked, secret: Secret, *, by: str, another: bool
) -> None:
    """Make the first key of an org, and the org if need be.

    Raises AlreadyExists, KEY_EXISTS, if an admin's key is there, unless `another` is wanted.
    """
    async with transaction(connection, COMMIT_KEY):
        await connection.execute(sql("keys.make_org"), asked.org)
        await connection.execute(sql("keys.lock_org"), asked.org)
        # In a statement of its own: what another made meanwhile is seen (R1).
        if not another and await connection.fetchval(sql("keys.count_admins"), asked.org):
            raise AlreadyExists(
                f"the org {asked.org} has an admin's key; it can make others",
                reason=Reason.KEY_EXISTS,
                metadata={"org": asked.org},
            )
        await _insert(connection, asked, secret, by)


async def rotate_key(
    connection: Connection, org: str, key_id: str, secret: Secret, *, overlap: float, by: str
) -> None:
    """Give a key another secret; what it had goes on for `overlap` seconds.

    The same once more changes nothing. Raises NotFound, KEY_NOT_FOUND.
    """
    async with transaction(connection, COMMIT_KEY):
        name = await connection.fetchval(sql("keys.lock"), key_id, org)
        if name is None:
            raise key_not_found(key_id)
        added = sql("keys.add_secret")
        if await connection.fetchval(added, secret.prefix, key_id, secret.digest) is None:
            return
        await connection.execute(sql("keys.end_other_secrets"), key_id, secret.prefix, overlap)
        details = {"key_id": key_id, "overlap_seconds": overlap}
        await audit(
            connection, org=org, actor=by, action="key.rotate", target=name, details=details
        )


async def revoke_key(
    connection: Connection, org: str, key_id: str, *, by: str, reason: str
) -> None:
    """End a key at once; ending it twice is once."""
    async with transaction(connection, COMMIT_KEY):
        name = await connection.fetchval(sql("keys.revoke"), key_id, org, by)
        if name is not None:
            details = {"key_id": key_id, "reason": reason}
            await audit(
                connection, org=org, actor=by, action="key.revoke", target=name, details=details
            )


async def list_keys(
    connection: Connection, org: str, *, after: str, limit: int, with_revoked: bool
) -> list[ApiKey]:
    """Return the next keys of an org by id."""
    rows = await connection.fetch(sql("keys.list"), org, after, limit, with_revoked)
    return [ApiKey(**row) for row in rows]


async def key_named(connection: Connection, org: str, name: str) -> ApiKey:
    """Return the key of a name that is not revoked. Raises NotFound, KEY_NOT_FOUND."""
    row = await connection.fetchrow(sql("keys.named"), org, name)
    if row is None:
        raise key_not_found(name)
    return ApiKey(**row)


async def mark_used(connection: Connection, prefixes: Sequence[str]) -> None:
    """Note that secrets were used; at most once a minute for each."""
    await write(connection, COMMIT_KEY, sql("keys.mark_used"), list(prefixes))


def key_not_found(name: str) -> NotFound:
    """The error for a key that the org does not have, or that is revoked."""
    return NotFound(
        f"there is no key {name!r}", reason=Reason.KEY_NOT_FOUND, metadata={"key": name}
    )


async def _insert(connection: Connection, asked: KeyAsked, secret: Secret, by: str) -> None:
    made = await connection.fetchval(
        sql("keys.create"),
        asked.key_id,
        asked.org,
        asked.name,
        asked.member,
        list(asked.roles),
        list(asked.scopes),
        asked.rate,
        asked.burst,
        by,
        asked.lasts,
    )
    if made is None:
        return
    await connection.fetchval(sql("keys.add_secret"), secret.prefix, asked.key_id, secret.digest)
    details = {
        "key_id": asked.key_id,
        "roles": list(asked.roles),
        "scopes": list(asked.scopes),
        "member": asked.member,
        "lasts_seconds": asked.lasts,
    }
    await audit(
        connection, org=asked.org, actor=by, action="key.create", target=asked.name, details=details
    )
