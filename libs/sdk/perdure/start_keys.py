"""Start keys that the client makes itself, so that a lost answer starts nothing a second time."""

from __future__ import annotations

import uuid

OWN_KEY_PREFIX = "sdk:"
"""Begins the keys that this client makes."""


def key_or_own(given: str | None) -> str:
    """Return the caller's key; without one make one for the repeats of one call."""
    return f"{OWN_KEY_PREFIX}{uuid.uuid4()}" if given is None else given
