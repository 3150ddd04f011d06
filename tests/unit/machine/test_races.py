"""What a decided join leaves over: the open branches, and nothing that anybody else waits for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perdure_machine.decide.racing import left_over
from perdure_machine.definition.model import Definition
from perdure_machine.definition.parse import parse

LANES = frozenset({"io", "slow"})

Edges = dict[str, list[str]]


def graph(edges: Edges) -> Definition:
    nodes = ", ".join(f"{id_}: {{needs: {needs}, wait: 1}}" for id_, needs in edges.items())
    return parse(f"name: w\nnodes: {{{nodes}}}".encode(), known_lanes=LANES)


def left(edges: Edges, *arrived: str) -> set[str]:
    return set(left_over(graph(edges).nodes, "j", frozenset(arrived)))


@pytest.mark.parametrize(
    ("edges", "arrived", "expected"),
    [
        ({"a": [], "b": [], "j": ["a", "b"]}, ["a"], {"b"}),
        ({"a": [], "b1": [], "b": ["b1"], "j": ["a", "b"]}, ["a"], {"b1", "b"}),
        ({"t": [], "a": ["t"], "b": ["t"], "j": ["a", "b"]}, ["a"], {"b"}),
        ({"a": [], "b": [], "c": [], "j": ["a", "b", "c"]}, ["a", "c"], {"b"}),
        ({"a": [], "b": [], "note": ["b"], "j": ["a", "b"]}, ["a"], {"b", "note"}),
        ({"a": [], "b": [], "both": ["b", "a"], "j": ["a", "b"]}, ["a"], set()),
        ({"a": [], "b": [], "o": [], "x": ["b", "o"], "j": ["a", "b"]}, ["a"], set()),
        ({"a": [], "b": [], "x": ["b"], "y": ["x", "a"], "j": ["a", "b"]}, ["a"], set()),
        ({"a": [], "b": [], "j": ["a", "b"], "after": ["j", "b"]}, ["a"], set()),
        ({"a": [], "b": [], "c": [], "j": ["a", "b", "c"], "x": ["b"], "y": ["x", "c"]}, ["a"],
         {"b", "c", "x", "y"}),
        ({"a": [], "b1": [], "b": ["b1"], "n": ["b1"], "o": ["n", "a"], "j": ["a", "b"]}, ["a"],
         {"b"}),
        ({"t": [], "a": ["t"], "b": ["t"], "x": ["t"], "j": ["a", "b"]}, ["a"], {"b"}),
    ],
)  # fmt: skip
def test_what_only_the_open_branches_are_for(
    edges: Edges, arrived: list[str], expected: set[str]
) -> None:
    assert left(edges, *arrived) == expected


@st.composite
def races(draw: st.DrawFn) -> tuple[Edges, list[str]]:
    ids = [f"n{i}" for i in range(draw(st.integers(2, 9)))]
    edges: Edges = {}
    for i, id_ in enumerate(ids):
        edges[id_] = draw(st.lists(st.sampled_from(ids[:i]), unique=True, max_size=3)) if i else []
    edges["j"] = draw(st.lists(st.sampled_from(ids), unique=True, min_size=2))
    after = draw(st.lists(st.sampled_from([*ids, "j"]), unique=True, min_size=1))
    edges["after"] = after
    arrived = draw(st.lists(st.sampled_from(edges["j"]), unique=True, min_size=1))
    return edges, arrived


@given(races())
def test_nobody_else_waits_for_what_is_left_over_and_nothing_more_could_go(
    race: tuple[Edges, list[str]],
) -> None:
    edges, arrived = race
    found = left(edges, *arrived)
    assert "j" not in found
    assert found.isdisjoint(arrived)
    waiting = {id_ for id_, needs in edges.items() if found.intersection(needs)}
    assert waiting <= found | {"j"}
    for need in set(edges["j"]) - set(arrived) - found:
        assert any(need in needs for id_, needs in edges.items() if id_ != "j")
