"""A graph as one SVG that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from perdure.graph.layout import LINE, PADDING, Box, Layout, Line, heading, lay_out
from perdure.graph.model import Graph

_MARGIN = 16
_ROUND = {"switch": 18, "wait": 10, "signal": 10, "fail": 18, "finish": 18}
_STYLE = (
    "text{font:13px monospace;text-anchor:middle;fill:#1a1a1a}"
    "rect{fill:#fff;stroke:#767676}"
    "path{fill:none;stroke:#505050}"
    ".kind{fill:#595959}"
    ".label{font-size:12px;fill:#595959;paint-order:stroke;stroke:#fff;stroke-width:4px}"
    ".on_failure{stroke-dasharray:5 4}"
    "marker path{fill:#505050;stroke:none}"
)
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
)


def svg(graph: Graph) -> str:
    """Return the picture, from top to bottom."""
    layout = lay_out(graph)
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">'
    )
    body = _layout(layout, _MARGIN, _MARGIN)
    page = '<rect width="100%" height="100%" style="stroke:none"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", _ARROW, page, *body, "</svg>"]) + "\n"


def _layout(layout: Layout, left: float, top: float) -> Iterator[str]:
    yield f'<g transform="translate({left:.0f} {top:.0f})">'
    for box in layout.boxes:
        yield from _box(box)
    yield from map(_path, layout.lines)
    yield from (_label(line) for line in layout.lines if line.edge.label)
    yield "</g>"


def _box(box: Box) -> Iterator[str]:
    yield (
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" '
        f'height="{box.height:.0f}" rx="{_ROUND.get(box.vertex.kind, 3)}"/>'
    )
    for i, text in enumerate(box.vertex.lines):
        y = box.y + PADDING / 2 + LINE * (i + 0.7)
        yield _text(text, box.x + box.width / 2, y, "kind" if i else "id")
    if box.inner is not None:
        left = box.x + (box.width - box.inner.width) / 2
        yield from _layout(box.inner, left, box.y + heading(box.vertex))


def _path(line: Line) -> str:
    (x, y), *rest = line.points
    path = f"M{x:.0f} {y:.0f}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        path += f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"
        x, y = to_x, to_y
    dashed = ' class="on_failure"' if line.edge.on_failure else ""
    return f'<path d="{path}"{dashed} marker-end="url(#arrow)"/>'


def _label(line: Line) -> str:
    x, y = line.points[1]
    return _text(line.edge.label, x, y - LINE / 2, "label")


def _text(text: str, x: float, y: float, name: str) -> str:
    return f'<text class="{name}" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'
