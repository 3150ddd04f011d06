"""Builds a graph's nodes from their drafts, once nothing in the document is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure_machine.definition.compiling import mapping
from perdure_machine.definition.draft import Draft
from perdure_machine.definition.edges import rescuers_of
from perdure_machine.definition.graph import Needs, dependents_of
from perdure_machine.definition.model import Graph, JoinKind, Node, Prefetch
from perdure_machine.definition.prefetch import Prefetches
from perdure_machine.definition.sources import Source
from perdure_machine.expressions import Read, Template, compile_template
from perdure_machine.expressions.values import Json
from perdure_machine.replacing import replace

_NEED_ALL_WELL = (JoinKind.ALL, JoinKind.STRICT)


@dataclass(frozen=True, slots=True)
class GraphDraft:
    """A graph whose nodes are compiled; `order` has needs before what needs them."""

    source: Source
    drafts: Mapping[str, Draft]
    order: tuple[str, ...]
    undos: Mapping[str, Draft]


def leaf_output(graph: GraphDraft) -> Template:
    """Return the template of an object of the outputs of all nodes that no node needs."""
    needed = {need for draft in graph.drafts.values() for need in draft.needs}
    leaves = [id_ for id_ in graph.drafts if id_ not in needed]
    return compile_template({id_: f'${{nodes["{id_}"].output}}' for id_ in leaves})


def build_graph(
    graph: GraphDraft,
    output: Template | None,
    last_reads: frozenset[Read],
    run_reads: frozenset[Read],
    nodes: dict[str, Node],
) -> Graph:
    """Return the graph, whose nodes are added to `nodes`; the reads are as for `Prefetches`."""
    drafts = graph.drafts
    dependents = dependents_of({id_: draft.needs for id_, draft in drafts.items()})
    rescuers = rescuers_of(graph.source.nodes)
    survived = _survived(drafts, dependents, graph.order)
    prefetches = Prefetches(drafts, dependents, rescuers, graph.order, last_reads, run_reads)
    for id_, draft in drafts.items():
        nodes[id_] = Node(
            id=id_,
            container=graph.source.container,
            kind=draft.kind,
            needs=draft.needs,
            dependents=dependents[id_],
            rescuers=rescuers[id_],
            survivors=id_ in survived,
            join=draft.join,
            when=draft.when,
            result=draft.result,
            retry=draft.retry,
            timeout=draft.timeout,
            deadline=draft.deadline,
            publish=draft.publish,
            lane=draft.lane,
            priority=draft.priority,
            on_failure=draft.on_failure,
            prefetch=prefetches.after(id_),
            connection=draft.connection,
            undo=undo_of(id_) if id_ in graph.undos else None,
            undo_attempted=_undoes_attempts(graph.source.nodes[id_]),
            subject=draft.subject,
            purpose=draft.purpose,
            cost=draft.cost,
            effect_key=draft.effect_key,
            spent=draft.spent,
        )
    for id_, draft in graph.undos.items():
        nodes[undo_of(id_)] = node_in_no_graph(undo_of(id_), graph.source.container, draft)
    return Graph(
        nodes=tuple(drafts),
        roots=tuple(id_ for id_, draft in drafts.items() if not draft.needs),
        output=output,
        leaf_output=leaf_output(graph),
        start_prefetch=prefetches.at_start(),
    )


def undo_of(id_: str) -> str:
    """Return the id of the node that compensates another; no document can name one so."""
    return f"{id_}.compensate"


def _undoes_attempts(node: Json) -> bool:
    return mapping(mapping(node).get("compensate")).get("when") == "attempted"


def node_in_no_graph(id_: str, container: str, draft: Draft) -> Node:
    """Return a node that no edge leads to: it runs while a run ends, in scopes of `container`."""
    return Node(
        id=id_,
        container=container,
        kind=draft.kind,
        needs=(),
        dependents=(),
        rescuers=frozenset(),
        survivors=False,
        join=draft.join,
        when=draft.when,
        result=None,
        retry=draft.retry,
        timeout=draft.timeout,
        deadline=None,
        publish=None,
        lane=draft.lane,
        priority=draft.priority,
        on_failure=(),
        prefetch=Prefetch(frozenset(), frozenset(), False),
        subject=draft.subject,
        purpose=draft.purpose,
        connection=draft.connection,
        cost=draft.cost,
        effect_key=draft.effect_key,
        spent=draft.spent,
    )


def about_the_same(node: Node, whole: Template | None) -> Node:
    """Return a node that names only a purpose as one about the subject of the whole run."""
    names_only_a_purpose = node.purpose and node.subject is None
    return replace(node, subject=whole) if names_only_a_purpose else node


def _survived(
    drafts: Mapping[str, Draft], dependents: Needs, order: tuple[str, ...]
) -> frozenset[str]:
    """Return the nodes from which one descends that may run although what it needs failed."""
    found: set[str] = set()
    for id_ in reversed(order):
        for other in dependents[id_]:
            if other in found or drafts[other].join.kind not in _NEED_ALL_WELL:
                found.add(id_)
    return frozenset(found)
