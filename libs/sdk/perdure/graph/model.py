"""What a picture shows of a document: its nodes, the edges between them, what stands in what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from perdure.workflow import Kind

MAX_TEXT = 40
"""Longest text of a picture, in characters; more is cut."""

_KINDS = frozenset(kind.NAME for kind in Kind.__subclasses__())
_DETAILS: Mapping[str, Sequence[str]] = {
    "task": ("handler",),
    "http": ("method", "url"),
    "grpc": ("service", "method"),
    "wait": ("duration",),
    "fail": ("code",),
    "for_each": ("in",),
    "repeat": ("until", "while"),
    "run": ("workflow",),
    "signal": ("name", "deadline"),
    "emit": ("name",),
}
"""What is told of a kind, by its members."""

Members: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Edge:
    """`label` is when it is taken, empty for always; `on_failure` if a failure leads along it."""

    source: str
    target: str
    label: str = ""
    on_failure: bool = False


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node: its lines of text, and the graph that stands in it, if any."""

    id: str
    kind: str
    lines: tuple[str, ...]
    inner: Graph | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order of the document, and the edges among them."""

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]


def graph_of(document: bytes) -> Graph:
    """Return the graph of a definition, YAML or JSON, as far as it is one.

    Raises ValueError if the document cannot be read or has no nodes.
    """
    try:
        read = yaml.load(document, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"it is neither YAML nor JSON: {error}") from error
    nodes = _members(_members(read).get("nodes"))
    if not nodes:
        raise ValueError("it has no `nodes`")
    return _graph(nodes)


def _graph(nodes: Members) -> Graph:
    described = {id_: _members(node) for id_, node in nodes.items()}
    edges = [
        edge
        for id_, node in described.items()
        for edge in (*_ways_out(id_, node), *_needs(id_, node, described))
        if edge.target in described
    ]
    return Graph(tuple(_vertex(id_, node) for id_, node in described.items()), tuple(edges))


def _vertex(id_: str, node: Members) -> Vertex:
    kind = _kind(node)
    inner = _members(_members(node.get(kind)).get("nodes"))
    return Vertex(id_, kind, tuple(_lines(id_, kind, node)), _graph(inner) if inner else None)


def _lines(id_: str, kind: str, node: Members) -> Iterator[str]:
    yield id_
    yield short(_does(kind, node))
    join = node.get("join", "all")
    if join != "all":
        quorum = _members(join).get("quorum")
        yield short(f"join: {join if quorum is None else f'quorum {quorum}'}")
    if "when" in node:
        yield short(f"when: {node['when']}")
    undo = _members(node.get("compensate"))
    if undo:
        yield short(f"undo: {_does(_kind(undo), undo)}")


def _kind(node: Members) -> str:
    return next((name for name in node if name in _KINDS), "")


def _does(kind: str, node: Members) -> str:
    body = node.get(kind)
    told = [body] if isinstance(body, str) and kind in _DETAILS else _picked(body, kind)
    return " ".join([kind, *told])


def _picked(body: object, kind: str) -> list[str]:
    members = _members(body)
    told = (members.get(name) for name in _DETAILS.get(kind, ()))
    return [text for text in told if isinstance(text, str)]


def _ways_out(id_: str, node: Members) -> Iterator[Edge]:
    """Yield the edges that a node draws itself."""
    switch = _members(node.get("switch"))
    for case in _list(switch.get("cases")):
        for target in _list(_members(case).get("then")):
            yield Edge(id_, target, short(str(_members(case).get("when", ""))))
    for target in _list(switch.get("else")):
        yield Edge(id_, target, "else")
    for handler in _list(node.get("on_failure")):
        for target in _list(_members(handler).get("then")):
            when = short(str(_members(handler).get("when", "on failure")))
            yield Edge(id_, target, when, on_failure=True)


def _needs(id_: str, node: Members, nodes: Mapping[str, Members]) -> Iterator[Edge]:
    for need in _list(node.get("needs")):
        if need in nodes and not any(e.target == id_ for e in _ways_out(need, nodes[need])):
            yield Edge(need, id_)


def short(text: str) -> str:
    """Return a text in one line, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def _members(value: object) -> Members:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []
