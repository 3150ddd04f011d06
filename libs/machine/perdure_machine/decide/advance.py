"""From ended nodes to the nodes that may begin: joins, conditions, inline work, the run's end."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_machine.decide.activate import activate, fail_at_once
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import MAX_ENDED_AT_ONCE, complete_run, fail_run
from perdure_machine.decide.joining import SKIPPED_BECAUSE, turn_of
from perdure_machine.decide.joins import Turn
from perdure_machine.decide.later import go_on_later
from perdure_machine.decide.stopping import NEED_FAILED, RUN_STOPS, cancel, skip, stop
from perdure_machine.decide.widening import widened
from perdure_machine.definition.model import Node
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import expression_error
from perdure_machine.view import ViewTooNarrow

MAX_INLINE_NODES = 100
"""Nodes that one event may begin; the rest goes on by an internal event, so none takes long."""


def advance(draft: Draft) -> None:
    """Decide on each candidate, and on what follows from nodes that end at once, in order."""
    first = tuple(draft.candidates)
    begun = 0
    while draft.candidates and draft.running:
        if begun == MAX_INLINE_NODES:
            go_on_later(draft, draft.candidates)
            draft.candidates.clear()
            return
        node = draft.definition.nodes[draft.candidates.popleft()]
        try:
            begun += _decide(draft, node)
        except ViewTooNarrow as narrow:
            raise widened(draft, first, narrow) from None
    draft.candidates.clear()
    if draft.running and draft.run.ended_nodes == len(draft.definition.nodes):
        _end(draft)


def go_on(draft: Draft, nodes: Sequence[str]) -> None:
    """Decide on what an earlier event left for later."""
    draft.candidates.extend(nodes[:MAX_ENDED_AT_ONCE])
    if len(nodes) > MAX_ENDED_AT_ONCE:
        go_on_later(draft, nodes[MAX_ENDED_AT_ONCE:])


def _decide(draft: Draft, node: Node) -> bool:
    """Decide on one node; return whether that made a step or ended one."""
    step = draft.step_of(node.id)
    if step is not None:
        return draft.stops(node.id) and stop(draft, step)
    if draft.stops(node.id):
        cancel(draft, node, RUN_STOPS)
        return True
    draft.require(node.needs)
    return _take_turn(draft, node)


def _take_turn(draft: Draft, node: Node) -> bool:
    try:
        turn = turn_of(draft, node)
    except ExpressionFailed as failure:
        fail_at_once(draft, node, expression_error(failure, node.id))
        return True
    match turn:
        case Turn.RUN:
            activate(draft, node)
        case Turn.SKIP:
            skip(draft, node, SKIPPED_BECAUSE[node.join.kind])
        case Turn.CANCEL:
            cancel(draft, node, NEED_FAILED)
    return turn is not Turn.WAIT


def _end(draft: Draft) -> None:
    if draft.run.error is not None:
        fail_run(draft, draft.run.error)
    else:
        complete_run(draft)
