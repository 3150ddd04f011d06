"""What `result` makes of a node's output, and `spent` of what its call answered."""

from __future__ import annotations

import json

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import node_scope
from perdure_machine.definition.model import Node
from perdure_machine.expressions import ExpressionFailed, NodeValue, Template, render
from perdure_machine.money import amount
from perdure_machine.places import Place
from perdure_machine.states import StepStatus
from perdure_machine.view import StepState


def shaped(draft: Draft, node: Node, place: Place, output: bytes) -> bytes:
    """Return the node's output as its `result` shapes it. Raises `ExpressionFailed`."""
    if node.result is None:
        return output
    return _read(draft, node, place, node.result, output)


def told_cost(draft: Draft, step: StepState, output: bytes) -> int | None:
    """Return what the step's call came to by its answer, in millionths, None where it is not told.

    What gives no amount tells nothing: the call was made, and its estimate counts.
    """
    node = draft.node(step)
    if node.cost is None or node.spent is None:
        return None
    try:
        return amount(json.loads(_read(draft, node, step.place, node.spent, output)))
    except (ExpressionFailed, ValueError):
        return None


def _read(draft: Draft, node: Node, place: Place, template: Template, output: bytes) -> bytes:
    own = {node.id: NodeValue(StepStatus.COMPLETED, output, None)}
    return render(template, node_scope(draft, node, place, [template], own))
