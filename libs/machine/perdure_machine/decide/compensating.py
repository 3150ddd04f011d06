"""Compensation: what completed is taken back one by one, the last to end first (design section 12).

It runs when everything in the run has ended, across all scopes by the order of their ends. The
next one is found by an index, so what it costs does not grow with the run. One that fails for good
is counted and the others go on: the run ends as it was to end, and says what was not compensated.
"""

from __future__ import annotations

import json

from perdure_machine.actions import SetTimer
from perdure_machine.decide.activate import dispatch, expressions_of, work_of
from perdure_machine.decide.at_end import run_at_end
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import end_compensated
from perdure_machine.decide.resolving import (
    is_given_up,
    next_to_find_out,
    open_for,
)
from perdure_machine.decide.scope import scope_for
from perdure_machine.decide.stopping import new_step
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.model import Node
from perdure_machine.expressions import ExpressionFailed, Scope
from perdure_machine.expressions.reads import THIS
from perdure_machine.node_error import encode_error, expression_error
from perdure_machine.payload import object_bytes
from perdure_machine.places import TOP, At, Place
from perdure_machine.replacing import replace
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.view import StepState, ViewTooNarrow, Wanted

MAX_LOOKED_AT = 100
"""Steps that one event looks at for the next to compensate."""


def compensate_next(draft: Draft) -> None:
    """Begin the next compensation once all else has ended; after the last the run ends.

    Raises `ViewTooNarrow`.
    """
    if draft.paused or draft.run.ended_steps < draft.run.next_step - 1:
        return
    found = _next_ones(draft)
    for step in found[:MAX_LOOKED_AT]:
        if _must_wait(draft, step):
            return
        draft.run = replace(draft.run, undo_below=_rank(step))
        if _begin(draft, step):
            return
    if len(found) > MAX_LOOKED_AT:
        draft.actions.append(SetTimer(TimerKind.COMPENSATE, None, 0.0, draft.run.generation))
    elif not run_at_end(draft):
        end_compensated(draft)


def _next_ones(draft: Draft) -> list[StepState]:
    """Return the next steps to compensate, the last to end first, those of this event among them.

    Raises `ViewTooNarrow`.
    """
    below, loaded = draft.run.undo_below, draft.view.compensable
    if below == 0 or draft.view.run.next_step == 1:  # none is left, or nothing is stored yet
        loaded = ()
    if loaded is None:
        raise ViewTooNarrow(Wanted(compensable=frozenset({below})))
    known = {*loaded, *draft.changed}
    steps = [draft.steps[n] for n in known if draft.steps[n].compensable]
    return sorted((one for one in steps if _rank(one) < below), key=_rank, reverse=True)


def _rank(step: StepState) -> int:
    assert step.ended_rank is not None
    return step.ended_rank


def _begin(draft: Draft, step: StepState) -> bool:
    """Begin the compensation of a step; return whether there is one to wait for."""
    node = draft.definition.nodes.get(step.node)
    if node is None or node.undo is None:  # a migration has left its compensation behind
        return _refuse(draft, step, "the version that the run went to has no compensation for it")
    undo = draft.definition.nodes[node.undo]
    # One for all tries of a whole: their effects have the same keys.
    place = Place(step.scope, TOP.generation)
    if draft.step_of(At(*place, undo.id)) is not None or _is_covered(draft, step):
        return False
    if is_given_up(draft, step):
        return _refuse(draft, step, "nobody knows whether its call was performed")
    draft.run = replace(draft.run, compensations=draft.run.compensations + 1)
    try:
        work = work_of(draft, undo, _scope(draft, undo, step))
    except ExpressionFailed as failure:
        failed = replace(new_step(draft, undo, place, StepStatus.FAILED), compensates=step.step)
        end_failed(draft, failed, expression_error(failure, undo.id))
        return False
    if next_to_find_out(draft, step) is not None:
        draft.offer(None)  # its acquisition parks it
    begun = dispatch(draft, undo, place, work, compensates=step.step)
    draft.record("compensation_began", begun, of=step.node)
    return True


def _must_wait(draft: Draft, step: StepState) -> bool:
    """Look again when calls of the step are over that may be open; return whether there are any."""
    seconds = open_for(draft, step)
    if seconds > 0:
        timer = SetTimer(TimerKind.COMPENSATE, None, seconds, draft.run.generation)
        draft.actions.append(timer)
    return seconds > 0


def _refuse(draft: Draft, step: StepState, why: str) -> bool:
    draft.run = replace(draft.run, uncompensated=draft.run.uncompensated + 1)
    draft.record("compensation_refused", step, why=why)
    return False


def _is_covered(draft: Draft, step: StepState) -> bool:
    """Tell whether the whole that a step stands in is compensated instead of its parts."""
    place = step.place
    while place != TOP:
        owner = draft.owner(place)
        if owner.compensable:
            return True
        place = owner.place
    return False


def _scope(draft: Draft, undo: Node, step: StepState) -> Scope:
    expressions = expressions_of(undo)
    read = {one for e in expressions if e is not None for one in e.reads if one.root == THIS}
    error = encode_error(draft.run.error) if draft.run.error is not None else None
    scope = scope_for(draft, step.place, expressions, error=error)
    if not read:
        return scope
    return replace(scope, loop={**scope.loop, THIS: _this(draft, step)})


def _this(draft: Draft, step: StepState) -> bytes:
    """Return the compensated step as its compensation sees it; what it has not is absent."""
    if step.lane is not None and step.input is None:
        raise ViewTooNarrow(Wanted(steps=frozenset({step.step})))
    draft.require([step.at], outputs=[step.at])
    members = {"status": json.dumps(step.status).encode()}
    if step.input is not None:
        members["input"] = step.input
    output = draft.steps[step.step].output
    if output is not None:
        members["output"] = output
    if step.error is not None:
        members["error"] = encode_error(step.error)
    return object_bytes(members)
