"""A graph as the text of a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.graph.model import Edge, Graph, Vertex

_SHAPES = {
    "switch": ("{", "}"),
    "wait": ("{{", "}}"),
    "signal": ("{{", "}}"),
    "fail": ("([", "])"),
    "finish": ("([", "])"),
}
_BOX = ("[", "]")
_ESCAPES = {ord(char): f"#{ord(char)};" for char in '#"<>&`'}


def mermaid(graph: Graph) -> str:
    """Return the flowchart, from top to bottom."""
    return "\n".join(["flowchart TD", *_graph(graph, "    ")]) + "\n"


def _graph(graph: Graph, indent: str) -> Iterator[str]:
    for vertex in graph.vertices:
        yield from _vertex(vertex, indent)
    for edge in graph.edges:
        yield indent + _edge(edge)


def _vertex(vertex: Vertex, indent: str) -> Iterator[str]:
    text = "<br/>".join(line.translate(_ESCAPES) for line in vertex.lines)
    if vertex.inner is None:
        left, right = _SHAPES.get(vertex.kind, _BOX)
        yield f'{indent}{_name(vertex.id)}{left}"{text}"{right}'
        return
    yield f'{indent}subgraph {_name(vertex.id)}["{text}"]'
    yield from _graph(vertex.inner, indent + "    ")
    yield f"{indent}end"


def _edge(edge: Edge) -> str:
    arrow = "-.->" if edge.on_failure else "-->"
    label = f'|"{edge.label.translate(_ESCAPES)}"|' if edge.label else ""
    return f"{_name(edge.source)} {arrow}{label} {_name(edge.target)}"


def _name(id_: str) -> str:
    """Return an id that is no word of Mermaid's."""
    return f"n_{id_}"
