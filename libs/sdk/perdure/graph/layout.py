"""Where the boxes of a graph stand: in layers from top to bottom, few lines across one another.

Each node stands one layer below the lowest of those that lead to it. A line over several layers
passes through a place of its own in each, so that it crosses no box. The order in a layer follows
the neighbours' (barycentres). What stands in a node is laid out first and is a box of its size.
Lengths are pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perdure.graph.model import Edge, Graph, Vertex

CHAR = 8
LINE = 18
PADDING = 12
GAP = 24
LAYER_GAP = 48
_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class Box:
    """A node with its place: the upper left corner, and what stands in it, placed likewise."""

    vertex: Vertex
    x: float
    y: float
    width: float
    height: float
    inner: Layout | None


@dataclass(frozen=True, slots=True)
class Line:
    """An edge with the points that it passes, from the box above to the box below."""

    edge: Edge
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A graph with places, in a space of `width` and `height` that begins at 0, 0."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


@dataclass(slots=True)
class _Place:
    """A box, or where a long line passes a layer; `room` is kept free around its `middle`."""

    room: float
    width: float = 0.0
    height: float = 0.0
    middle: float = 0.0
    top: float = 0.0


def lay_out(graph: Graph) -> Layout:
    """Return the graph with places."""
    inner = {v.id: lay_out(v.inner) for v in graph.vertices if v.inner is not None}
    places = {v.id: _sized(v, inner.get(v.id), graph.edges) for v in graph.vertices}
    depths = _depths(graph)
    routes = [_route(edge, depths, places) for edge in graph.edges]
    layers = _layers(places, depths, routes)
    _order(layers, routes)
    height = _set_places(layers, routes)
    width = max(p.middle + p.room / 2 for layer in layers for p in layer)
    return Layout(
        tuple(_box(v, places[v.id], inner.get(v.id)) for v in graph.vertices),
        tuple(Line(e, _points(route)) for e, route in zip(graph.edges, routes, strict=True)),
        width,
        height,
    )


def heading(vertex: Vertex) -> float:
    """Return how high the text of a box is."""
    return len(vertex.lines) * LINE + PADDING


def _sized(vertex: Vertex, inner: Layout | None, edges: Iterable[Edge]) -> _Place:
    width: float = max(map(len, vertex.lines)) * CHAR + 2 * PADDING
    height = heading(vertex)
    if inner is not None:
        width = max(width, inner.width + 2 * PADDING)
        height += inner.height + PADDING
    labels = [len(e.label) * CHAR for e in edges if e.target == vertex.id]
    return _Place(max([width, *labels]), width, height)


def _depths(graph: Graph) -> dict[str, int]:
    """Return the layer of each node; edges of a circle count as far as they lead forward."""
    depths = {vertex.id: 0 for vertex in graph.vertices}
    for _ in depths:
        for edge in graph.edges:
            deeper = depths[edge.source] + 1
            if depths[edge.target] < deeper < len(depths):
                depths[edge.target] = deeper
    return depths


def _route(edge: Edge, depths: Mapping[str, int], places: Mapping[str, _Place]) -> list[_Place]:
    """Return what an edge passes, one place in each layer, from above to below."""
    between = depths[edge.target] - depths[edge.source] - 1
    label = len(edge.label) * CHAR
    passed = [_Place(GAP if i else max(GAP, label)) for i in range(between)]
    return [places[edge.source], *passed, places[edge.target]]


def _layers(
    places: Mapping[str, _Place], depths: Mapping[str, int], routes: Iterable[Sequence[_Place]]
) -> list[list[_Place]]:
    layers: list[list[_Place]] = [[] for _ in range(max(depths.values()) + 1)]
    for id_, place in places.items():
        layers[depths[id_]].append(place)
    depth_of = {id(place): depths[id_] for id_, place in places.items()}
    for route in routes:
        for i, place in enumerate(route[1:-1], depth_of[id(route[0])] + 1):
            layers[i].append(place)
    return [layer for layer in layers if layer]


def _order(layers: Sequence[list[_Place]], routes: Iterable[Sequence[_Place]]) -> None:
    """Sort each layer by where its neighbours stand, downwards and upwards in turn."""
    above, below = _neighbours(routes)
    for sweep in range(_SWEEPS):
        at = {id(place): i for layer in layers for i, place in enumerate(layer)}
        side, order = (below, layers[::-1]) if sweep % 2 else (above, layers)
        for layer in order:
            means = {id(p): _mean([at[id(n)] for n in side[id(p)]], at[id(p)]) for p in layer}
            layer.sort(key=lambda place: means[id(place)])
            at.update((id(place), i) for i, place in enumerate(layer))


Neighbours = Mapping[int, Sequence[_Place]]


def _neighbours(routes: Iterable[Sequence[_Place]]) -> tuple[Neighbours, Neighbours]:
    above: dict[int, list[_Place]] = _Lists()
    below: dict[int, list[_Place]] = _Lists()
    for route in routes:
        for upper, lower in pairwise(route):
            above[id(lower)].append(upper)
            below[id(upper)].append(lower)
    return above, below


class _Lists(dict[int, list[_Place]]):
    def __missing__(self, key: int) -> list[_Place]:
        return self.setdefault(key, [])


def _set_places(layers: Sequence[Sequence[_Place]], routes: Iterable[Sequence[_Place]]) -> float:
    """Give every place its middle and its top; return how high all of it is."""
    above, below = _neighbours(routes)
    top = 0.0
    for layer in layers:
        _spread(layer, above)
        height = max(place.height for place in layer)
        for place in layer:
            place.top, place.height = top, place.height or height
        top += height + LAYER_GAP
    for layer in layers[::-1]:
        _spread(layer, below)
    left = min(place.middle - place.room / 2 for layer in layers for place in layer)
    for layer in layers:
        for place in layer:
            place.middle -= left
    return top - LAYER_GAP


def _spread(layer: Sequence[_Place], side: Neighbours) -> None:
    """Move each place of a layer below or above its neighbours, as far as there is room."""
    wanted = [_mean([n.middle for n in side[id(place)]], place.middle) for place in layer]
    edge = float("-inf")
    for place, middle in zip(layer, wanted, strict=True):
        place.middle = max(middle, edge + place.room / 2)
        edge = place.middle + place.room / 2 + GAP
    too_far = sum(p.middle - w for p, w in zip(layer, wanted, strict=True)) / len(layer)
    for place in layer:
        place.middle -= too_far


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _box(vertex: Vertex, place: _Place, inner: Layout | None) -> Box:
    left = place.middle - place.width / 2
    return Box(vertex, left, place.top, place.width, place.height, inner)


def _points(route: Sequence[_Place]) -> tuple[tuple[float, float], ...]:
    both = [((p.middle, p.top), (p.middle, p.top + p.height)) for p in route]
    return tuple(point for ends in both for point in ends)[1:-1]
