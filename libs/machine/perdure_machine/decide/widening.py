"""Asks for what a decision lacks, and at once for all that it may read next.

Each question is a query under the run's lock. What was loaded with the event is what a run without
a failure reads; where one failed, any node that descends from it may end at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from perdure_machine.decide.activate import expressions_of
from perdure_machine.decide.catching import handler_expressions
from perdure_machine.decide.draft import Draft
from perdure_machine.definition.graph import reachable
from perdure_machine.definition.model import Finish, Prefetch
from perdure_machine.expressions.reads import INPUT, JOIN, Read
from perdure_machine.places import At, Place
from perdure_machine.view import ViewTooNarrow, Wanted


@dataclass(frozen=True, slots=True)
class _Around:
    """The nodes whose steps may be read, and those of them whose outputs may be."""

    steps: frozenset[At]
    outputs: frozenset[At]
    input: bool


def widened(draft: Draft, candidates: Sequence[At], narrow: ViewTooNarrow) -> ViewTooNarrow:
    """Return `narrow` with all that the decision about `candidates` may read besides.

    Raises `ViewTooNarrow` where not even the scopes of the candidates are known.
    """
    around = _near(draft, candidates)
    if draft.run.error is not None or not _lacks(draft, around):
        around = _far(draft, candidates)
    besides = Wanted(
        nodes=draft.unknown(around.steps, around.outputs),
        outputs=around.outputs,
        input=around.input and draft.run.input is None,
    )
    return ViewTooNarrow(narrow.wanted.joined(besides))


def _lacks(draft: Draft, around: _Around) -> bool:
    return bool(draft.unknown(around.steps, around.outputs))


def _near(draft: Draft, candidates: Iterable[At]) -> _Around:
    """Return what may be read when nodes begin: what may be when one of their needs ends well."""
    steps: set[At] = set()
    outputs: set[At] = set()
    reads_input = False
    for at in candidates:
        for prefetch in _before(draft, at):
            steps |= _placed(draft, at.place, prefetch.steps)
            outputs |= _placed(draft, at.place, prefetch.outputs)
            reads_input = reads_input or prefetch.input
    return _Around(frozenset(steps), frozenset(outputs), reads_input)


def _before(draft: Draft, at: At) -> Iterable[Prefetch]:
    nodes = draft.definition.nodes
    needs = nodes[at.node].needs
    return [nodes[need].prefetch for need in needs] or [draft.graph(at.place).start_prefetch]


def _far(draft: Draft, candidates: Sequence[At]) -> _Around:
    """Return what may be read if every node that can end does: the steps first, then outputs."""
    reached = frozenset(_reached(draft, candidates))
    nodes = draft.definition.nodes
    needs = (at._replace(node=need) for at in reached for need in nodes[at.node].needs)
    steps = reached.union(needs)
    if draft.unknown(steps):
        return _Around(steps, frozenset(), input=False)
    open_ = [at for at in reached if draft.step_of(at) is None]
    reads = [(at, read) for at in open_ for read in _reads(draft, at)]
    outputs = {other for at, read in reads for other in _outputs(draft, at, read)}
    named = {_read_at(draft, at, read) for at, read in reads if read.node is not None}
    return _Around(
        steps | named | outputs,
        frozenset(outputs),
        input=any(read.root == INPUT for _, read in reads),
    )


def _reached(draft: Draft, candidates: Iterable[At]) -> Iterator[At]:
    dependents = {id_: node.dependents for id_, node in draft.definition.nodes.items()}
    by_place: dict[Place, list[str]] = defaultdict(list)
    for at in candidates:
        by_place[at.place].append(at.node)
    for place, ids in by_place.items():
        for id_ in reachable(ids, dependents).union(ids):
            yield At(*place, id_)


def _reads(draft: Draft, at: At) -> frozenset[Read]:
    """Return all that may be read if the node begins and ends at once."""
    node = draft.definition.nodes[at.node]
    at_end = (node.result, node.spent, *handler_expressions(node))
    expressions = [node.join.quorum, *expressions_of(node), *at_end]
    if isinstance(node.kind, Finish):
        expressions.append(draft.definition.top.result)
    return frozenset().union(*(one.reads for one in expressions if one is not None))


def _outputs(draft: Draft, at: At, read: Read) -> Iterable[At]:
    if read.root == JOIN:
        needs = draft.definition.nodes[at.node].needs
        return [at._replace(node=need) for need in needs]
    return (_read_at(draft, at, read),) if read.node is not None and read.part == "output" else ()


def _read_at(draft: Draft, at: At, read: Read) -> At:
    node = str(read.node)
    return At(*draft.place_of(node, at.place), node)


def _placed(draft: Draft, place: Place, nodes: Iterable[str]) -> frozenset[At]:
    return frozenset(At(*draft.place_of(node, place), node) for node in nodes)
