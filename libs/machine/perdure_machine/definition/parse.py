"""A document becomes a `Definition`, or all its problems at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypedDict

from perdure_machine.definition import terms
from perdure_machine.definition.about import check_amount
from perdure_machine.definition.at_end import at_end, drafts_at_end, named
from perdure_machine.definition.building import (
    GraphDraft,
    about_the_same,
    build_graph,
    leaf_output,
    node_in_no_graph,
)
from perdure_machine.definition.compiling import duration_at, mapping, template_at
from perdure_machine.definition.document import read_document
from perdure_machine.definition.draft import Draft, Drafter
from perdure_machine.definition.edges import check_picks, edges
from perdure_machine.definition.graph import check_graph
from perdure_machine.definition.heirs import first_of, heirs, last_of
from perdure_machine.definition.inputs import check_input_schema
from perdure_machine.definition.later import without_later
from perdure_machine.definition.model import (
    DEFAULT_MAX_STEPS,
    Definition,
    Graph,
    Limits,
    Node,
    OnError,
)
from perdure_machine.definition.problems import Problems
from perdure_machine.definition.reading import Reading
from perdure_machine.definition.schema import check_schema
from perdure_machine.definition.sources import Source, sources_of
from perdure_machine.expressions import Read, Template, compile_template
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path
from perdure_machine.places import is_source


def parse(document: bytes, *, known_lanes: frozenset[str]) -> Definition:
    """Check a YAML or JSON document and return what it means.

    `known_lanes` are the lanes that operators have made. Raises `DefinitionInvalid` with every
    problem; doubts that do not refuse the document are the definition's `warnings`.
    """
    problems = Problems()
    value = read_document(document, problems)
    problems.refuse()
    if not isinstance(value, dict):
        problems.add((), "it is not an object with `name` and `nodes`")
        value = {}
    problems.refuse()
    members = without_later(value, problems)
    check_schema(members, problems)
    return _definition(members, value.get("nodes"), problems, known_lanes)


def canonical(document: bytes) -> bytes:
    """Return the document's content in one form, whatever its layout and key order, for its digest.

    Raises `DefinitionInvalid` if it cannot be read.
    """
    problems = Problems()
    value = read_document(document, problems)
    problems.refuse()
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _definition(
    members: Mapping[str, Json], nodes: Json, problems: Problems, known_lanes: frozenset[str]
) -> Definition:
    """Compile what fits, note what is wrong in the rest, and build once nothing is."""
    ends = at_end(members)
    last = named(ends)
    last_drafts = drafts_at_end(members, mapping(members.get("nodes")), problems, known_lanes)
    sources = sources_of(_without(members.get("nodes"), last), _without(nodes, last), problems)
    containers = {id_: source.container for source in sources for id_ in source.nodes}
    reading = Reading(containers, _signals(sources), problems)
    graphs = [_graph_draft(source, reading, problems, known_lanes) for source in sources]
    reading.check_at_end(sources[0], last_drafts)
    _check_published(graphs, problems)
    output = None
    if "output" in members:
        reads: list[tuple[Path, Read]] = []
        output = template_at(members["output"], ("output",), problems, reads)
        reading.check_output(reads, sources[0].nodes.keys())
    check_input_schema(members.get("input"), problems)
    limits = _limits(members.get("limits"), problems)
    deadline, exclusive = terms.deadline(members, problems), terms.exclusive(members, problems)
    subject = terms.subject(members, problems)
    _check_purposes([*_all_drafts(graphs), *last_drafts.values()], subject, problems)
    problems.refuse()
    schema = members.get("input")
    return Definition(
        name=str(members["name"]),
        **_built(graphs, output, last_drafts, subject),
        subject=subject,
        at_end=ends,
        input_schema=None if schema is None else json.dumps(schema).encode(),
        limits=limits,
        deadline=deadline,
        exclusive=exclusive,
        on_error=OnError(str(members.get("on_error", OnError.STOP))),
        compensate_on_cancel=members.get("compensate_on_cancel") is True,
        warnings=tuple(problems.warnings),
    )


def _signals(sources: Sequence[Source]) -> frozenset[str]:
    """Return the nodes that wait for a signal."""
    nodes = ((id_, node) for source in sources for id_, node in source.nodes.items())
    return frozenset(id_ for id_, node in nodes if "signal" in mapping(node))


def _without(nodes: Json, left_out: Collection[str]) -> Json:
    return {id_: node for id_, node in mapping(nodes).items() if id_ not in left_out}


def _graph_draft(
    source: Source, reading: Reading, problems: Problems, known_lanes: frozenset[str]
) -> GraphDraft:
    needs = edges(source.nodes, source.path, problems)
    drafts: dict[str, Draft] = {}
    undos: dict[str, Draft] = {}
    for id_, node in source.nodes.items():
        written = source.written.get(id_)
        if isinstance(node, dict) and isinstance(written, dict):
            drafter = Drafter(source, id_, problems, known_lanes, needs[id_])
            draft = drafter.draft(node, written)
            if draft is not None:
                drafts[id_] = draft
            undo = drafter.undo(node)
            if undo is not None:
                undos[id_] = undo
    order = check_graph(needs, source.path, problems)
    check_picks(source.nodes, source.path, problems)
    reading.check(source, drafts, needs, order)
    reading.check_undos(source, undos)
    return GraphDraft(source, drafts, order or (), undos)


def _all_drafts(graphs: Sequence[GraphDraft]) -> Iterator[Draft]:
    for graph in graphs:
        yield from (*graph.drafts.values(), *graph.undos.values())


def _check_purposes(drafts: Iterable[Draft], subject: Template | None, problems: Problems) -> None:
    """Note nodes that say what their work is for and not about whom it is."""
    for draft in drafts:
        if draft.purpose and draft.subject is None and subject is None:
            reason = "it says what the work is for and not about whom"
            problems.add(
                (*draft.path, "purpose"), reason, "add `subject` here or for the whole run"
            )


def _check_published(graphs: Sequence[GraphDraft], problems: Problems) -> None:
    """Note names under which two nodes publish, or a node that there is many times over."""
    first: dict[str, str] = {}
    for graph in graphs:
        for id_, draft in graph.drafts.items():
            if draft.publish is None:
                continue
            path = (*graph.source.path, id_, "publish")
            if graph.source.container:
                problems.add(path, "a sub-graph has no output to give away", "publish its node's")
            elif first.setdefault(draft.publish, id_) != id_:
                reason = f"node '{first[draft.publish]}' publishes under this name already"
                problems.add(path, reason)


def _limits(limits: Json, problems: Problems) -> Limits:
    members = limits if isinstance(limits, dict) else {}
    steps, age = members.get("steps"), members.get("age")
    seconds = None
    if isinstance(age, str | int | float):
        seconds = duration_at(age, ("limits", "age"), problems)
    cost = check_amount(members.get("cost"), ("limits", "cost"), problems)
    return Limits(steps if isinstance(steps, int) else DEFAULT_MAX_STEPS, seconds, cost)


def _built(
    graphs: Sequence[GraphDraft],
    output: Template | None,
    at_the_end: Mapping[str, Draft],
    subject: Template | None,
) -> _Built:
    """Build every graph; what each reads at its end stands on the node that holds it.

    Nodes that run `at_the_end` are in none. Nodes that name only a purpose are about `subject`.
    """
    holders = {id_: draft for graph in graphs for id_, draft in graph.drafts.items()}
    run_reads = (output or leaf_output(graphs[0])).reads
    nodes = {id_: node_in_no_graph(id_, "", draft) for id_, draft in at_the_end.items()}
    built: dict[str, Graph] = {}
    for graph in graphs:
        holder = holders.get(graph.source.container)
        own = _output(graph, holder, output)
        last = {read for _, read in holder.inner_reads} if holder is not None else set[Read]()
        last |= (own or leaf_output(graph)).reads
        built[graph.source.container] = build_graph(graph, own, frozenset(last), run_reads, nodes)
    nodes = {id_: about_the_same(node, subject) for id_, node in nodes.items()}
    return {
        "nodes": MappingProxyType(nodes),
        "graphs": MappingProxyType(built),
        "heirs": MappingProxyType(heirs(nodes)),
        "first": first_of(nodes, built[""]),
        "last": last_of(nodes, built[""]),
    }


def _output(graph: GraphDraft, holder: Draft | None, output: Template | None) -> Template | None:
    """Return what each scope of a graph ends with; a page of items is what its task answered."""
    if is_source(graph.source.container):
        (page,) = graph.drafts
        return compile_template(f'${{nodes["{page}"].output}}')
    return output if holder is None else holder.graph_output


class _Built(TypedDict):
    nodes: Mapping[str, Node]
    graphs: Mapping[str, Graph]
    heirs: Mapping[str, str]
    first: str | None
    last: frozenset[str]
