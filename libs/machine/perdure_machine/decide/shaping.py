"""What `result` makes of a node's output."""

from __future__ import annotations

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import node_scope
from perdure_machine.definition.model import Node
from perdure_machine.expressions import NodeValue, render
from perdure_machine.places import Place
from perdure_machine.states import StepStatus


def shaped(draft: Draft, node: Node, place: Place, output: bytes) -> bytes:
    """Return the node's output as its `result` shapes it. Raises `ExpressionFailed`."""
    if node.result is None:
        return output
    own = {node.id: NodeValue(StepStatus.COMPLETED, output, None)}
    return render(node.result, node_scope(draft, node, place, [node.result], own))
