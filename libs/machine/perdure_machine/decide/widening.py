"""Asks for what a decision lacks, and at once for all that it may read next.

Each question is a query under the run's lock. What was loaded with the event is what a run without
a failure reads; where one failed, any node that descends from it may end at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perdure_machine.decide.activate import expressions_of
from perdure_machine.decide.catching import handler_expressions
from perdure_machine.decide.draft import Draft
from perdure_machine.definition.graph import reachable
from perdure_machine.definition.model import Definition, Finish, Node
from perdure_machine.expressions.reads import INPUT, JOIN, Read
from perdure_machine.view import ViewTooNarrow, Wanted


@dataclass(frozen=True, slots=True)
class _Around:
    """The nodes whose steps may be read, and those of them whose outputs may be."""

    steps: frozenset[str]
    outputs: frozenset[str]
    input: bool


def widened(draft: Draft, candidates: Sequence[str], narrow: ViewTooNarrow) -> ViewTooNarrow:
    """Return `narrow` with all that the decision about `candidates` may read besides."""
    around = _near(draft.definition, candidates)
    if draft.run.error is not None or not _lacks(draft, around):
        around = _far(draft, candidates)
    wanted = narrow.wanted
    return ViewTooNarrow(
        Wanted(
            nodes=wanted.nodes | draft.unknown(around.steps, around.outputs),
            outputs=wanted.outputs | around.outputs,
            steps=wanted.steps,
            input=wanted.input or (around.input and draft.run.input is None),
            unfinished=wanted.unfinished,
        )
    )


def _lacks(draft: Draft, around: _Around) -> bool:
    return bool(draft.unknown(around.steps, around.outputs))


def _near(definition: Definition, candidates: Iterable[str]) -> _Around:
    """Return what may be read when nodes begin: what may be when one of their needs ends well."""
    prefetches = []
    for node in candidates:
        needs = definition.nodes[node].needs
        prefetches += [definition.nodes[need].prefetch for need in needs]
        if not needs:
            prefetches.append(definition.start_prefetch)
    return _Around(
        steps=frozenset().union(*(one.steps for one in prefetches)),
        outputs=frozenset().union(*(one.outputs for one in prefetches)),
        input=any(one.input for one in prefetches),
    )


def _far(draft: Draft, candidates: Sequence[str]) -> _Around:
    """Return what may be read if every node that can end does: the steps first, then outputs."""
    nodes = draft.definition.nodes
    dependents = {id_: node.dependents for id_, node in nodes.items()}
    reached = reachable(candidates, dependents).union(candidates)
    steps = reached.union(*(nodes[id_].needs for id_ in reached))
    if draft.unknown(steps):
        return _Around(steps, frozenset(), input=False)
    open_ = [nodes[id_] for id_ in reached if draft.step_of(id_) is None]
    reads = [(node, read) for node in open_ for read in _reads(draft.definition, node)]
    outputs = {other for node, read in reads for other in _outputs(node, read)}
    return _Around(
        steps | {read.node for _, read in reads if read.node is not None} | outputs,
        frozenset(outputs),
        input=any(read.root == INPUT for _, read in reads),
    )


def _reads(definition: Definition, node: Node) -> frozenset[Read]:
    """Return all that may be read if the node begins and ends at once."""
    expressions = [node.join.quorum, node.result, *expressions_of(node), *handler_expressions(node)]
    if isinstance(node.kind, Finish):
        expressions.append(definition.output or definition.leaf_output)
    return frozenset().union(*(one.reads for one in expressions if one is not None))


def _outputs(node: Node, read: Read) -> Iterable[str]:
    if read.root == JOIN:
        return node.needs
    return (read.node,) if read.node is not None and read.part == "output" else ()
