"""Start keys that ingest makes itself, for callers that gave none.

Such a key lives for one call: it makes ingest's own repeats to the coordinator harmless (p7). The
prefix keeps the two kinds apart, so callers may not use it and never see it.
"""

from __future__ import annotations

import uuid

OWN_PREFIX = "call:"


def own_start_key() -> str:
    """Make a key for one call."""
    return f"{OWN_PREFIX}{uuid.uuid4()}"


def shown_start_key(stored: str | None) -> str:
    """Return the key as its caller gave it; empty if none was given."""
    return "" if stored is None or stored.startswith(OWN_PREFIX) else stored
