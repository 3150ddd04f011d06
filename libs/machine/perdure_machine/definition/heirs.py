"""Where a run begins, which node comes straight after another, and where it ends: the plain cases.

A run that begins with one task, a task whose success begins one other task and nothing else, a task
or a wait with whose end the run is over: what such a case needs to know is the run and that step,
no other row, so that `decide.first_step`, `hand_over`, `last_report` and `last_wait` can decide
without a draft.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.model import Graph, Join, Node, Task, Wait
from perdure_machine.expressions import Template
from perdure_machine.expressions.reads import CALLBACK, INPUT, NODES, RUN, Read

_ALL = Join()
_ROWS = "rows"


def heirs(nodes: Mapping[str, Node]) -> Mapping[str, str]:
    """Return, by node, the one that its success hands the run over to; others are left out."""
    return {id_: node.dependents[0] for id_, node in nodes.items() if _hands_over(nodes, node)}


def first_of(nodes: Mapping[str, Node], top: Graph) -> str | None:
    """Return the one node that a run begins with, None where it begins otherwise."""
    if len(top.roots) != 1:
        return None
    (root,) = top.roots
    return root if _begins_plainly(nodes[root], needs=()) else None


def last_of(nodes: Mapping[str, Node], top: Graph) -> frozenset[str]:
    """Return the nodes that may end their run with nothing but themselves to tell of."""
    leaves = (id_ for id_ in top.nodes if not nodes[id_].dependents and _ends_plainly(nodes[id_]))
    return frozenset(id_ for id_ in leaves if _reads_only(top.result, id_))


def _hands_over(nodes: Mapping[str, Node], node: Node) -> bool:
    if len(node.dependents) != 1 or not _ends_plainly(node):
        return False
    (heir,) = node.dependents
    return heir not in node.rescuers and _begins_plainly(nodes[heir], needs=(node.id,))


def _ends_plainly(node: Node) -> bool:
    """Tell whether the node's success writes nothing but its step."""
    is_plain = isinstance(node.kind, Task | Wait) and not node.container
    extras = (node.result, node.deadline, node.undo, node.connection, node.cost)
    return is_plain and all(one is None for one in extras)


def _begins_plainly(node: Node, *, needs: tuple[str, ...]) -> bool:
    """Tell whether the node begins once those `needs` have ended well, whatever else is true."""
    if not isinstance(node.kind, Task) or node.kind.choice is not None or node.container:
        return False
    extras = (node.when, node.deadline, node.subject, node.connection, node.cost, node.effect_key)
    if any(one is not None for one in extras):
        return False
    follows = node.needs == needs and node.join == _ALL
    return follows and _reads_only(node.kind.input, *needs)


def _reads_only(template: Template | None, *nodes: str) -> bool:
    """Tell whether a template reads nothing but the run's input and facts, and `nodes`."""
    return template is None or all(_is_at_hand(read, nodes) for read in template.reads)


def _is_at_hand(read: Read, nodes: tuple[str, ...]) -> bool:
    if read.root == NODES:
        return read.node in nodes and read.path[:1] != (_ROWS,)
    return read.root == INPUT or (read.root == RUN and read.part != CALLBACK)
