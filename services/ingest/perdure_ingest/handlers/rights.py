"""What somebody may hand on: nothing beyond what they have."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_runtime.access import Permission, Role
from perdure_runtime.errors import PermissionDenied, Reason
from perdure_runtime.gate.identity import Caller

from perdure_ingest.validation import Check


def read_roles(fields: Check, given: Sequence[str]) -> list[Role]:
    """Check roles: one or more of those that there are; each once, in order."""
    known = {Role(role) for role in given if role in set(Role)}
    if not given or len(known) < len(set(given)):
        fields.add("roles", f"must be one or more of {', '.join(Role)}")
    return sorted(known)


def refuse_more_than_own(caller: Caller, wanted: frozenset[Permission]) -> None:
    """Raise PermissionDenied, PERMISSION_MISSING, for what the caller may not do itself."""
    beyond = sorted(wanted - caller.permissions)
    if beyond:
        raise PermissionDenied(
            f"nobody hands on what they may not do themselves: {', '.join(beyond)}",
            reason=Reason.PERMISSION_MISSING,
            metadata={"permission": beyond[0]},
        )
