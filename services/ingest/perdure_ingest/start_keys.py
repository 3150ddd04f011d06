"""Start keys that callers did not give: those that ingest makes itself, and those of child runs.

A key that ingest makes lives for one call: it makes ingest's own repeats to the coordinator
harmless (p7). The prefixes keep the kinds apart, so callers may not use them and never see them.
"""

from __future__ import annotations

import uuid

from perdure_machine.start_keys import CHILD_PREFIX

from perdure_ingest import limits
from perdure_ingest.validation import Check

OWN_PREFIX = "call:"

RESERVED = (OWN_PREFIX, CHILD_PREFIX)
"""What no caller's key begins with."""

_RESERVED_TEXT = " or ".join(map(repr, RESERVED))


def check_start_key(fields: Check, field: str, key: str) -> str:
    """Return a caller's key; what is wrong with it is noted."""
    if key.startswith(RESERVED):
        fields.add(field, f"must not begin with {_RESERVED_TEXT}, which Perdure uses itself")
    return fields.text(field, key, longest=limits.MAX_START_KEY)


def own_start_key() -> str:
    """Make a key for one call."""
    return f"{OWN_PREFIX}{uuid.uuid4()}"


def shown_start_key(stored: str | None) -> str:
    """Return the key as its caller gave it; empty if none was given."""
    return "" if stored is None or stored.startswith(RESERVED) else stored
