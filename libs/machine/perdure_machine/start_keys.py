"""The start keys of child runs: one per activation of a step, so that it starts one run at most."""

from __future__ import annotations

from uuid import UUID

CHILD_PREFIX = "child:"
"""Begins the key of every child; callers may not use it."""


def child_key(run_id: UUID, step: int, failures: int) -> str:
    """Return the key of the child of a step that has failed so often.

    The step's number stands for its scope, generation and node, whose text may be longer than a key
    may be. A step that is tried again after its child failed gets another child.
    """
    return f"{CHILD_PREFIX}{run_id}/{step}/{failures}"
