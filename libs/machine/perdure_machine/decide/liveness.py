"""Whether anything may still begin in a scope: not if a step around it stops, or has ended."""

from __future__ import annotations

from perdure_machine.decide.draft import Draft
from perdure_machine.places import TOP, Place
from perdure_machine.states import ScopeStatus, StepStatus
from perdure_machine.view import StepState


def stopping_around(draft: Draft, place: Place) -> StepState | None:
    """Return the outermost step around a scope that stops, or None. Raises `ViewTooNarrow`.

    A whole that is to be tried again has stopped already.
    """
    found = None
    while place != TOP:
        owner = draft.owner(place)
        if owner.status is StepStatus.WAITING and draft.block(owner).ending is not None:
            found = owner
        place = owner.place
    return found


def is_live(draft: Draft, place: Place) -> bool:
    """Tell whether nodes in a scope may still begin. Raises `ViewTooNarrow`."""
    while place != TOP:
        scope, owner = draft.scope(place), draft.owner(place)
        if scope.status is not ScopeStatus.RUNNING or owner.status is not StepStatus.WAITING:
            return False
        block = draft.block(owner)
        if block.ending is not None or block.generation != scope.generation:
            return False
        place = owner.place
    return True
