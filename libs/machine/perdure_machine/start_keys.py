"""The start keys of child runs: one per activation of a step, so that it starts one run at most."""

from __future__ import annotations

from uuid import UUID

from perdure_machine.view import StepState

CHILD_PREFIX = "child:"
"""Begins the key of every child; callers may not use it."""


def child_key(run_id: UUID, step: StepState) -> str:
    """Return the key of the step's child.

    The step's number stands for its scope, generation and node, whose text may be longer than a key
    may be. A step that is activated again after its child failed gets another child.
    """
    return f"{CHILD_PREFIX}{run_id}/{step.step}/{step.failures}"
