"""The limits of a run's time, which count from when it begins, or goes on after a retry."""

from __future__ import annotations

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.scope import scope_for
from perdure_machine.expressions import evaluate_duration
from perdure_machine.places import TOP
from perdure_machine.states import RunLimit


def limits_of(draft: Draft) -> dict[RunLimit, float]:
    """Return the limits of a run, in seconds from its beginning. Raises `ExpressionFailed`."""
    limits: dict[RunLimit, float] = {}
    if draft.definition.limits.age is not None:
        limits[RunLimit.AGE] = draft.definition.limits.age
    deadline = draft.definition.deadline
    if deadline is not None:
        limits[RunLimit.DEADLINE] = evaluate_duration(deadline, scope_for(draft, TOP, [deadline]))
    return limits
