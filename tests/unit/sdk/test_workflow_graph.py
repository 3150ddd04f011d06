"""Pictures of definitions: what is drawn of a document, as Mermaid and as SVG, without a server."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from perdure.cli.main import cli
from perdure.graph import graph_of, mermaid, svg
from perdure.graph.layout import Box, Layout, lay_out
from perdure.graph.model import Edge

GRAPHS = Path(__file__).parent / "graphs"
DRAWN = sorted(path.stem for path in GRAPHS.glob("*.yaml"))


def graph(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ("workflow", "graph", *arguments))


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize(("form", "ending"), [("mermaid", "mmd"), ("svg", "svg")])
def test_a_definition_is_drawn_as_it_was_looked_at(name: str, form: str, ending: str) -> None:
    drawn = graph("--format", form, str(GRAPHS / f"{name}.yaml"))
    assert drawn.exit_code == 0
    assert drawn.stdout == (GRAPHS / f"{name}.{ending}").read_text()


@pytest.mark.parametrize("name", DRAWN)
def test_no_box_covers_another_and_no_line_leads_upwards(name: str) -> None:
    check_layout(lay_out(graph_of((GRAPHS / f"{name}.yaml").read_bytes())))


def check_layout(layout: Layout) -> None:
    for one, other in combinations(layout.boxes, 2):
        assert apart(one, other), (one, other)
    for line in layout.lines:
        heights = [y for _, y in line.points]
        assert heights == sorted(heights)
    for box in layout.boxes:
        assert box.x >= 0
        assert box.x + box.width <= layout.width
        if box.inner is not None:
            assert box.inner.width < box.width
            assert box.inner.height < box.height
            check_layout(box.inner)


def apart(one: Box, other: Box) -> bool:
    beside = one.x + one.width <= other.x or other.x + other.width <= one.x
    return beside or one.y + one.height <= other.y or other.y + other.height <= one.y


def test_the_edges_are_those_of_needs_switches_and_failures_each_once() -> None:
    drawn = graph_of(
        b"""
        nodes:
          a: {switch: {cases: [{when: input.n > 1, then: [b]}], else: [c]}}
          b: {needs: [a], task: {handler: h}, on_failure: [{output: 1}, {then: [c]}]}
          c: {needs: [a, missing], task: {handler: h}}
        """
    )
    assert drawn.edges == (
        Edge("a", "b", "input.n > 1"),
        Edge("a", "c", "else"),
        Edge("b", "c", "on failure", on_failure=True),
    )


def test_whatever_a_document_holds_its_picture_is_well_formed() -> None:
    document = b"""
    nodes:
      end: {when: 'input.a < 1 && "<b>" != `x`#', transform: 1, needs: [end, on]}
      on: {needs: [end], what: {}}
      odd: [1]
    """
    drawn = graph_of(document)
    ElementTree.fromstring(svg(drawn))
    text = mermaid(drawn)
    assert "n_end --> n_on" in text
    assert not set('<>&`"') & set(
        text.replace("<br/>", "").replace('["', "").replace('"]', "").replace("-->", "")
    )


@pytest.mark.parametrize("document", ["", "nodes: {}", "[", "just text"])
def test_what_is_no_definition_is_the_users_error(document: str, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(document)
    result = graph(str(tmp_path / "w.yaml"))
    assert result.exit_code == 1
    assert "do this:" in result.stderr
