"""The graphs of a document as they are written: the one at the top, and one in each block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perdure_machine.definition.blocks import KINDS, alias_of, page_of
from perdure_machine.definition.compiling import mapping
from perdure_machine.definition.problems import Problems
from perdure_machine.expressions.reads import CARRY, CURSOR, INDEX, ITEM
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path
from perdure_machine.places import source_of

MAX_NESTING = 8
"""Deepest nesting of sub-graphs; every event in one looks at all the scopes around it."""

_GIVES = {"for_each": {ITEM, INDEX}, "repeat": {INDEX, CARRY}, "group": set[str]()}


@dataclass(frozen=True, slots=True)
class Source:
    """One graph: its nodes stand at `path`, in the node `container`, empty for the top one.

    `written` are the nodes with the constructs of later versions, which `nodes` lack. `outer` is
    the graph in which the container stands. `roots` are what the sub-graphs around give to
    expressions, `names` what these call their items.
    """

    container: str
    path: Path
    nodes: Mapping[str, Json]
    written: Mapping[str, Json]
    outer: Source | None = None
    roots: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()


def sources_of(nodes: Json, written: Json, problems: Problems) -> list[Source]:
    """Return all graphs, an outer one before those in it; ids that stand twice are noted."""
    found: list[Source] = []
    open_ = [Source("", ("nodes",), mapping(nodes), mapping(written))]
    while open_:
        source = open_.pop(0)
        found.append(source)
        if _depth(source) > MAX_NESTING:
            problems.add(source.path, f"sub-graphs nest at most {MAX_NESTING} deep")
        else:
            open_ += _inside(source)
    _check_ids(found, problems)
    return found


def _inside(source: Source) -> Iterator[Source]:
    for id_, node in source.nodes.items():
        members = mapping(node)
        for kind in KINDS:
            body = mapping(members.get(kind))
            if "source" in body:
                yield _source_of_items(source, id_, body)
            if isinstance(body.get("nodes"), dict):
                alias = alias_of(kind, body)
                yield Source(
                    container=id_,
                    path=(*source.path, id_, kind, "nodes"),
                    nodes=mapping(body["nodes"]),
                    written=mapping(
                        mapping(mapping(source.written.get(id_)).get(kind)).get("nodes")
                    ),
                    outer=source,
                    roots=source.roots | _GIVES[kind],
                    names=source.names | ({alias} if alias else set()),
                )


def _source_of_items(source: Source, id_: str, body: Mapping[str, Json]) -> Source:
    container = source_of(id_)
    nodes = {f"{container}page": page_of(body)}
    return Source(
        container=container,
        path=(*source.path, id_, "for_each", "source"),
        nodes=nodes,
        written=nodes,
        outer=source,
        roots=source.roots | {CURSOR},
        names=source.names,
    )


def _depth(source: Source) -> int:
    return 0 if source.outer is None else 1 + _depth(source.outer)


def _check_ids(sources: list[Source], problems: Problems) -> None:
    seen: dict[str, Path] = {}
    for source in sources:
        for id_ in source.nodes:
            if id_ in seen:
                where = ".".join(str(part) for part in seen[id_])
                reason = f"there is a node '{id_}' already, in {where}"
                problems.add((*source.path, id_), reason, "an id stands once in a document")
            else:
                seen[id_] = source.path
