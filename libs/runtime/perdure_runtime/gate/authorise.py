"""Whether a known caller may make a call: a function of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure_runtime.access import Permission
from perdure_runtime.errors import PermissionDenied, Reason
from perdure_runtime.gate.identity import Caller
from perdure_runtime.gate.rates import Rate


@dataclass(frozen=True, slots=True)
class Rule:
    """The permission that a method needs.

    `installation`: it is about all orgs, so only the org that runs the installation may call it.
    """

    permission: Permission
    installation: bool = False


Rules = Mapping[str, Rule]
"""What every method of a door asks of its caller, by full name such as
`/perdure.v1.RunService/StartRun`; what is not in it is refused."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom a credential stands for.

    `runs_installation`: the org is the one that may act on what all orgs share. `key` is what its
    calls are counted under, against `rate` or the door's own.
    """

    org: str
    actor: str
    permissions: frozenset[Permission]
    runs_installation: bool
    key: str
    rate: Rate | None = None


def authorise(principal: Principal, method: str, rules: Rules) -> Caller | PermissionDenied:
    """Return who makes the call, or PERMISSION_MISSING: also for a method without a rule."""
    rule = rules.get(method)
    if rule is None:
        return _refusal("nobody may call this method", method)
    if rule.permission not in principal.permissions:
        return _refusal(f"this needs the permission {rule.permission}", method, rule)
    if rule.installation and not principal.runs_installation:
        return _refusal("this is for the org that runs the installation", method, rule)
    return Caller(principal.org, principal.actor, principal.permissions)


def _refusal(message: str, method: str, rule: Rule | None = None) -> PermissionDenied:
    metadata = {"method": method} | ({"permission": str(rule.permission)} if rule else {})
    return PermissionDenied(message, reason=Reason.PERMISSION_MISSING, metadata=metadata)
