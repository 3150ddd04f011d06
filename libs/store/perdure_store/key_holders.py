"""Whom a key stands for: a function of what is known of it and what is presented."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from perdure_runtime.access import Permission, Role, permissions
from perdure_runtime.errors import Reason, Unauthenticated

from perdure_store.keys import KnownSecret


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Who has a key, and what it may do; `rate` is calls a second, None for the door's own."""

    key_id: str
    org: str
    actor: str
    permissions: frozenset[Permission]
    rate: float | None
    burst: int | None


def holder_of(known: KnownSecret | None, digest: bytes) -> KeyHolder:
    """Return who presents a secret of this SHA-256.

    Raises Unauthenticated: KEY_INVALID for an unknown key as for a wrong secret, and only to who
    knows the secret KEY_REVOKED or KEY_EXPIRED.
    """
    if known is None or not hmac.compare_digest(known.digest, digest):
        raise Unauthenticated("nobody was given this key", reason=Reason.KEY_INVALID)
    if known.is_revoked:
        raise _refusal("the key was revoked", Reason.KEY_REVOKED, known)
    if known.seconds_left is not None and known.seconds_left <= 0:
        raise _refusal("the key has expired", Reason.KEY_EXPIRED, known)
    return KeyHolder(
        key_id=known.key_id,
        org=known.org,
        actor=actor_of(known),
        permissions=_permissions(known),
        rate=known.rate,
        burst=known.burst,
    )


def actor_of(known: KnownSecret) -> str:
    """Return what the audit log calls who has the key."""
    key = f"key {known.name} ({known.key_id})"
    return key if known.member is None else f"{known.member}, {key}"


def _permissions(known: KnownSecret) -> frozenset[Permission]:
    allowed = permissions(map(Role, known.roles), map(Permission, known.scopes))
    if known.member is None:
        return allowed
    return allowed & permissions(map(Role, known.member_roles or ()))


def _refusal(message: str, reason: Reason, known: KnownSecret) -> Unauthenticated:
    return Unauthenticated(message, reason=reason, metadata={"key_id": known.key_id})
