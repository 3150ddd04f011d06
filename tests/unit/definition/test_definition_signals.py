"""What publish says of nodes that wait for signals and send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from perdure_machine.definition import DefinitionInvalid, Emit, Signal, parse

LANES = frozenset({"io", "slow"})


def document(node: dict[str, Any], **others: Any) -> bytes:
    return json.dumps({"name": "w", "nodes": {"a": node, **others}}).encode()


def problems(node: dict[str, Any], **others: Any) -> dict[str, str]:
    with pytest.raises(DefinitionInvalid) as refused:
        parse(document(node, **others), known_lanes=LANES)
    return {problem.path: problem.reason for problem in refused.value.problems}


def test_a_signal_needs_its_name_only_and_is_published_without_a_warning() -> None:
    definition = parse(document({"signal": {"name": "reply"}}), known_lanes=LANES)
    kind = definition.nodes["a"].kind
    assert isinstance(kind, Signal)
    assert (kind.signal, kind.key, kind.filter, kind.deadline) == ("reply", None, None, None)
    assert definition.warnings == ()


def test_an_emit_goes_by_a_key_or_to_a_run() -> None:
    definition = parse(document({"emit": {"name": "go", "run": "${input.r}"}}), known_lanes=LANES)
    assert isinstance(definition.nodes["a"].kind, Emit)
    reason = "it has exactly one of `key` and `run`"
    assert problems({"emit": {"name": "go"}}) == {"nodes.a.emit": reason}
    assert problems({"emit": {"name": "go", "key": "k", "run": "r"}}) == {"nodes.a.emit": reason}


@pytest.mark.parametrize("where", ["when", "result"])
def test_signal_is_there_in_filters_only(where: str) -> None:
    node: dict[str, Any] = {"signal": {"name": "go"}, where: "signal.data == 1"}
    if where == "result":
        node[where] = "${signal.data}"
    assert problems(node) == {
        f"nodes.a.{where}": "`signal` is there in the `filter` of a signal only"
    }


def test_signal_is_not_there_in_the_key_and_deadline_of_a_signal() -> None:
    body = {"name": "go", "key": "${signal.data}", "deadline": "${signal.data}"}
    assert problems({"signal": body}).keys() == {"nodes.a.signal.key", "nodes.a.signal.deadline"}


CALLBACK = "${run.callback('b')}"
WAIT: dict[str, Any] = {"signal": {"name": "go"}}


@pytest.mark.parametrize(
    "node",
    [
        {"transform": CALLBACK},
        {"for_each": {"in": "${input.list}", "nodes": {"inner": {"transform": CALLBACK}}}},
        {"transform": 1, "on_failure": [{"output": CALLBACK}]},
    ],
)
def test_a_callback_names_a_wait_beside_the_node_or_around_it(node: dict[str, Any]) -> None:
    assert parse(document(node, b=WAIT), known_lanes=LANES).nodes["b"].kind.name == "signal"


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({}, "there is no node 'b'"),
        ({"b": {"transform": 1}}, "node 'b' is no `signal`"),
        ({"c": {"group": {"nodes": {"b": WAIT}}}}, "the wait 'b' stands in another sub-graph"),
    ],
)
def test_a_callback_of_what_cannot_be_called_back_is_refused(
    others: dict[str, Any], reason: str
) -> None:
    assert problems({"transform": CALLBACK}, **others) == {"nodes.a.transform": reason}


@pytest.mark.parametrize(
    "source",
    [
        "run.callback(input.node)",
        "run.callback",
        "run.callback.b",
        "run.callback('b').c",
        "input.callback('b')",
    ],
)
def test_a_callback_is_written_in_one_way(source: str) -> None:
    assert problems({"transform": f"${{{source}}}"}, b=WAIT).keys() == {"nodes.a.transform"}


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"output": CALLBACK}, "output"),
        ({"exclusive": {"key": CALLBACK}}, "exclusive.key"),
        ({"deadline": CALLBACK}, "deadline"),
    ],
)
def test_a_callback_stands_in_nodes_only(members: dict[str, Any], path: str) -> None:
    whole = json.dumps({"name": "w", "nodes": {"b": WAIT}, **members}).encode()
    with pytest.raises(DefinitionInvalid) as refused:
        parse(whole, known_lanes=LANES)
    assert [problem.path for problem in refused.value.problems] == [path]


def test_a_compensation_hands_out_no_callback() -> None:
    task = {"handler": "x", "input": CALLBACK}
    node = {"task": {"handler": "x"}, "compensate": {"task": task}}
    assert len(problems(node, b=WAIT)) == 1


def test_a_filter_is_bare_cel_and_reads_what_has_ended_before() -> None:
    assert problems({"signal": {"name": "go", "filter": "${signal.data}"}}) == {
        "nodes.a.signal.filter": "a condition is bare CEL"
    }
    reading = {"signal": {"name": "go", "filter": "signal.data == nodes.b.output"}}
    b = {"transform": 1}
    assert problems(reading, b=b).keys() == {"nodes.a.signal.filter"}
    parse(document({**reading, "needs": ["b"]}, b=b), known_lanes=LANES)


def test_a_deadline_that_is_written_out_is_checked() -> None:
    found = problems({"signal": {"name": "go", "deadline": "soon"}})
    assert found.keys() == {"nodes.a.signal.deadline"}


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", 7])
def test_a_name_is_text_of_some_length(name: object) -> None:
    assert problems({"signal": {"name": name}}).keys() == {"nodes.a.signal.name"}
    assert problems({"emit": {"name": name, "key": "k"}}).keys() == {"nodes.a.emit.name"}


def test_neither_uses_a_lane() -> None:
    assert problems({"signal": {"name": "go"}, "lane": "io", "timeout": 1}).keys() == {
        "nodes.a.lane",
        "nodes.a.timeout",
    }
