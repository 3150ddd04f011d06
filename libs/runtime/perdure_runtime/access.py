"""What somebody may do: permissions, and the roles that are sets of them.

A role is what people are given; a permission is what an operation asks for. Scopes of a key are
permissions too, and narrow what its roles allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType


class Permission(StrEnum):
    """What an operation asks of who calls it."""

    RUNS_READ = "runs:read"
    RUNS_START = "runs:start"
    RUNS_SIGNAL = "runs:signal"
    RUNS_CONTROL = "runs:control"
    WORKFLOWS_READ = "workflows:read"
    WORKFLOWS_PUBLISH = "workflows:publish"
    CONNECTIONS_READ = "connections:read"
    CONNECTIONS_WRITE = "connections:write"
    EFFECTS_READ = "effects:read"
    EFFECTS_DECIDE = "effects:decide"
    CONSENT_READ = "consent:read"
    CONSENT_WRITE = "consent:write"
    SUBJECTS_ERASE = "subjects:erase"
    BUDGETS_READ = "budgets:read"
    BUDGETS_WRITE = "budgets:write"
    LANES_READ = "lanes:read"
    LANES_WRITE = "lanes:write"
    SYSTEM_READ = "system:read"
    KEYS_MANAGE = "keys:manage"
    MEMBERS_MANAGE = "members:manage"
    AUDIT_READ = "audit:read"
    WORK = "work"


class Role(StrEnum):
    """What a person or a program is in an org."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    WORKER = "worker"


_VIEWER = frozenset(
    {
        Permission.RUNS_READ,
        Permission.WORKFLOWS_READ,
        Permission.CONNECTIONS_READ,
        Permission.EFFECTS_READ,
        Permission.CONSENT_READ,
        Permission.BUDGETS_READ,
        Permission.LANES_READ,
    }
)

PERMISSIONS_OF: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {
        Role.VIEWER: _VIEWER,
        Role.OPERATOR: _VIEWER
        | {
            Permission.RUNS_START,
            Permission.RUNS_SIGNAL,
            Permission.RUNS_CONTROL,
            Permission.WORKFLOWS_PUBLISH,
            Permission.CONNECTIONS_WRITE,
            Permission.EFFECTS_DECIDE,
            Permission.CONSENT_WRITE,
            Permission.LANES_WRITE,
            Permission.SYSTEM_READ,
        },
        Role.APPROVER: _VIEWER | {Permission.EFFECTS_DECIDE},
        Role.ADMIN: frozenset(Permission),
        Role.WORKER: frozenset({Permission.WORK}),
    }
)


def permissions(roles: Iterable[Role], scopes: Iterable[Permission] = ()) -> frozenset[Permission]:
    """Return what `roles` allow together, of that only `scopes` where any are given."""
    allowed = frozenset[Permission]().union(*(PERMISSIONS_OF[role] for role in roles))
    narrowed = frozenset(scopes)
    return allowed & narrowed if narrowed else allowed
