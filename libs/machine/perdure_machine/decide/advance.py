"""From ended nodes to the nodes that may begin: joins, conditions, inline work, the run's end."""

from __future__ import annotations

from perdure_machine.decide.activate import activate, fail_at_once
from perdure_machine.decide.blocks import end_scope_if_over, is_block
from perdure_machine.decide.compensating import compensate_next
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import complete_run, fail_run
from perdure_machine.decide.joining import SKIPPED_BECAUSE, turn_of
from perdure_machine.decide.joins import Turn
from perdure_machine.decide.later import Left, go_on_later
from perdure_machine.decide.liveness import is_live
from perdure_machine.decide.parking import MAX_MOVED_AT_ONCE
from perdure_machine.decide.racing import lose_rest, lost_because
from perdure_machine.decide.stopping import NEED_FAILED, RUN_STOPS, cancel, skip, stop
from perdure_machine.decide.widening import widened
from perdure_machine.decide.winding import stop_inside
from perdure_machine.definition.model import Node
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import expression_error
from perdure_machine.places import TOP, At, Place
from perdure_machine.states import BlockEnd, StepStatus
from perdure_machine.view import StepState, ViewTooNarrow

MAX_INLINE_NODES = 100
"""Nodes that one event may begin; the rest goes on by an internal event, so none takes long."""

_DECIDED = (Turn.RUN, Turn.SKIP)


def advance(draft: Draft) -> None:
    """Decide on each candidate, and on what follows from nodes that end at once, in order.

    In a pause the candidates are left for an event that is held until the run is resumed.
    """
    first = tuple(draft.candidates)
    begun = 0
    while draft.running and (draft.touched or draft.candidates):
        if draft.paused and not draft.touched:
            go_on_later(draft, draft.candidates)
            break
        if begun == MAX_INLINE_NODES and not draft.touched:
            go_on_later(draft, draft.candidates)
            draft.candidates.clear()
            return
        try:
            begun += _next(draft)
        except ViewTooNarrow as narrow:
            raise widened(draft, first, narrow) from None
    draft.candidates.clear()
    draft.touched.clear()
    if draft.open and draft.run.ending is not None:
        compensate_next(draft)


def go_on(draft: Draft, left: Left) -> None:
    """Decide on what an earlier event left for later. Raises `ViewTooNarrow`.

    What a migration has made of nodes that are no more was decided by itself.
    """
    nodes = [at for at in left.nodes if at.node in draft.definition.nodes]
    draft.lost |= left.lost
    draft.require_scopes(at.place for at in nodes[:MAX_MOVED_AT_ONCE])
    draft.candidates.extend(nodes[:MAX_MOVED_AT_ONCE])
    if len(nodes) > MAX_MOVED_AT_ONCE:
        go_on_later(draft, nodes[MAX_MOVED_AT_ONCE:])


def _next(draft: Draft) -> bool:
    """Take the next turn; return whether it made a step or ended one.

    Candidates come first where a node just ended, so that a scope has ended once none is left.
    """
    if draft.touched:
        place = next(iter(draft.touched))
        del draft.touched[place]
        _end_if_all_ended(draft, place)
        return False
    return _decide(draft, draft.candidates.popleft())


def _end_if_all_ended(draft: Draft, place: Place) -> None:
    if place != TOP:
        end_scope_if_over(draft, place)
    elif draft.run.pending or draft.paused:
        return
    elif draft.run.ended_nodes == len(draft.definition.top.nodes):
        _end(draft)


def _decide(draft: Draft, at: At) -> bool:
    """Decide on one node; return whether that made a step or ended one."""
    if not is_live(draft, at.place):
        return False
    node = draft.definition.nodes[at.node]
    step = draft.step_of(at)
    why = RUN_STOPS if draft.stops(at) else lost_because(draft, at)
    if why is not None:
        if step is not None:
            return _stop(draft, step, why)
        cancel(draft, node, at.place, why)
        return True
    if step is not None:
        return False
    draft.require(at._replace(node=need) for need in node.needs)
    return _take_turn(draft, node, at.place)


def _stop(draft: Draft, step: StepState, why: str) -> bool:
    if is_block(draft, step) and step.status is StepStatus.WAITING:
        stop_inside(draft, step, BlockEnd.CANCEL)
        return True
    return stop(draft, step, why)


def _take_turn(draft: Draft, node: Node, place: Place) -> bool:
    try:
        turn = turn_of(draft, node, place)
    except ExpressionFailed as failure:
        fail_at_once(draft, node, place, expression_error(failure, node.id))
        return True
    match turn:
        case Turn.RUN:
            activate(draft, node, place)
        case Turn.SKIP:
            skip(draft, node, place, SKIPPED_BECAUSE[node.join.kind])
        case Turn.CANCEL:
            cancel(draft, node, place, NEED_FAILED)
    if turn in _DECIDED and node.join.cancels_rest:
        lose_rest(draft, node, place)
    return turn is not Turn.WAIT


def _end(draft: Draft) -> None:
    if draft.run.awaited_children:
        return
    if draft.run.error is not None:
        fail_run(draft, draft.run.error)
    else:
        complete_run(draft)
