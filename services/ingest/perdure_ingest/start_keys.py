"""Start keys that callers did not give: those that ingest makes itself, and those of child runs.

A key that ingest makes lives for one call: it makes ingest's own repeats to the coordinator
harmless (p7). The prefixes keep the kinds apart, so callers may not use them and never see them.
"""

from __future__ import annotations

import uuid

from perdure_machine.start_keys import CHILD_PREFIX

OWN_PREFIX = "call:"

RESERVED = (OWN_PREFIX, CHILD_PREFIX)
"""What no caller's key begins with."""


def own_start_key() -> str:
    """Make a key for one call."""
    return f"{OWN_PREFIX}{uuid.uuid4()}"


def shown_start_key(stored: str | None) -> str:
    """Return the key as its caller gave it; empty if none was given."""
    return "" if stored is None or stored.startswith(RESERVED) else stored
