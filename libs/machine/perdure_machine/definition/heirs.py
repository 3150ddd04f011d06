"""Which node comes straight after another: the plain case that most steps of most runs are.

A task whose success begins one other task and nothing else hands its run over to that one. What
such a hand-over needs to know is the run and the step that ends, no other row, so that
`decide.hand_over` can decide on it without a draft.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.model import Join, Node, Task
from perdure_machine.expressions import Template
from perdure_machine.expressions.reads import CALLBACK, INPUT, NODES, RUN, Read

_ALL = Join()
_ROWS = "rows"


def heirs(nodes: Mapping[str, Node]) -> Mapping[str, str]:
    """Return, by node, the one that its success hands the run over to; others are left out."""
    return {id_: node.dependents[0] for id_, node in nodes.items() if _hands_over(nodes, node)}


def _hands_over(nodes: Mapping[str, Node], node: Node) -> bool:
    if len(node.dependents) != 1 or not _ends_plainly(node):
        return False
    (heir,) = node.dependents
    return heir not in node.rescuers and _begins_plainly(nodes[heir], after=node.id)


def _ends_plainly(node: Node) -> bool:
    """Tell whether the node's success writes nothing but its step."""
    is_plain = isinstance(node.kind, Task) and not node.container
    extras = (node.result, node.deadline, node.undo, node.connection, node.cost)
    return is_plain and all(one is None for one in extras)


def _begins_plainly(node: Node, *, after: str) -> bool:
    """Tell whether the node begins once `after` has ended well, whatever else is true."""
    if not isinstance(node.kind, Task) or node.kind.choice is not None or node.container:
        return False
    extras = (node.when, node.deadline, node.subject, node.connection, node.cost, node.effect_key)
    if any(one is not None for one in extras):
        return False
    follows = node.needs == (after,) and node.join == _ALL
    return follows and _reads_only(node.kind.input, after)


def _reads_only(template: Template | None, node: str) -> bool:
    """Tell whether a template reads nothing but the run's input and facts, and `node`."""
    return template is None or all(_is_at_hand(read, node) for read in template.reads)


def _is_at_hand(read: Read, node: str) -> bool:
    if read.root == NODES:
        return read.node == node and read.path[:1] != (_ROWS,)
    return read.root == INPUT or (read.root == RUN and read.part != CALLBACK)
