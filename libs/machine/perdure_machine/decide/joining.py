"""The join of a node in its run: what its edges ask for now, and what its expressions see of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joins import Arrival, Turn, arrival, turn
from perdure_machine.decide.scope import scope_for
from perdure_machine.definition.model import JoinKind, Node
from perdure_machine.expressions import (
    Expression,
    ExpressionCode,
    ExpressionFailed,
    NodeValue,
    Scope,
    Template,
    render,
)
from perdure_machine.payload import object_bytes
from perdure_machine.places import At, Place

SKIPPED_BECAUSE = {
    JoinKind.ALL: "all it needs was skipped",
    JoinKind.STRICT: "something it needs was skipped",
    JoinKind.ANY: "nothing it needs ended well",
    JoinKind.QUORUM: "too little of what it needs can end well",
}
"""Why a join skips its node, for the history; `settled` never does."""

_NULL = b"null"


def turn_of(draft: Draft, node: Node, place: Place) -> Turn:
    """Return what the edges of the node in the scope `place` ask for now.

    Raises `ExpressionFailed` for a quorum without a value, and `ViewTooNarrow`.
    """
    arrivals = [_arrival(draft, node, place, need) for need in node.needs]
    quorum = 1
    if node.join.quorum is not None and any(one is not Arrival.OPEN for one in arrivals):
        quorum = _quorum(node.join.quorum, draft, place)
    return turn(node.join.kind, arrivals, quorum)


def first_bytes(draft: Draft, node: Node, place: Place) -> bytes | None:
    """Return `join` as the node's expressions see it: the need that was first to end well.

    The output is copied byte for byte (R12). Raises `ViewTooNarrow`.
    """
    well = [need for need in node.needs if _arrival(draft, node, place, need) is Arrival.WELL]
    if not well:
        return None
    first = min(well, key=lambda need: _rank(draft, At(*place, need)))
    draft.require([At(*place, first)], outputs=[At(*place, first)])
    step = draft.step_of(At(*place, first))
    members = {"id": json.dumps(first).encode()}
    if step is not None and step.output is not None:
        members["output"] = step.output
    return object_bytes({"first": object_bytes(members)})


def node_scope(
    draft: Draft,
    node: Node,
    place: Place,
    expressions: Iterable[Expression | Template | None],
    own: Mapping[str, NodeValue] | None = None,
    *,
    error: bytes | None = None,
) -> Scope:
    """Return what expressions of a node read, whose join in `place` has decided that it runs.

    `own` is the node's own value where it is just ending, `error` the error that they handle.
    Raises `ViewTooNarrow`.
    """
    joined = partial(first_bytes, draft, node, place)
    return scope_for(draft, place, expressions, own, join=joined, error=error)


def open_needs(draft: Draft, node: Node, place: Place) -> frozenset[str]:
    """Return the needs that have not ended. Raises `ViewTooNarrow`."""
    return frozenset(
        need for need in node.needs if _arrival(draft, node, place, need) is Arrival.OPEN
    )


def _arrival(draft: Draft, node: Node, place: Place, need: str) -> Arrival:
    return arrival(draft.definition.nodes[need], draft.step_of(At(*place, need)), node.id)


def _rank(draft: Draft, need: At) -> int:
    step = draft.step_of(need)
    assert step is not None
    assert step.ended_rank is not None
    return step.ended_rank


def _quorum(template: Template, draft: Draft, place: Place) -> int:
    value = render(template, scope_for(draft, place, [template]))
    number = json.loads(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ExpressionFailed(
            ExpressionCode.TYPE,
            f"a quorum is a whole number from 1 on, not {value[:80]!r}",
            template.source,
        )
    return number
