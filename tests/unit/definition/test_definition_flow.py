"""What directs a run is checked at publish: joins, switches, failures that are caught and made."""

from __future__ import annotations

import pytest
from perdure_machine.definition import (
    Definition,
    DefinitionInvalid,
    Fail,
    Finish,
    JoinKind,
    OnError,
    Switch,
    parse,
)

LANES = frozenset({"io", "slow"})


def nodes(text: str, more: str = "") -> Definition:
    return parse(f"name: w\nnodes:\n{text}\n{more}".encode(), known_lanes=LANES)


def problems(text: str, more: str = "") -> dict[str, str]:
    with pytest.raises(DefinitionInvalid) as caught:
        nodes(text, more)
    return {problem.path: problem.reason for problem in caught.value.problems}


def test_a_then_is_an_edge() -> None:
    definition = nodes("""
  s: {switch: {cases: [{when: input.x, then: [a]}, {when: input.y, then: [a, b]}], else: [c]}}
  a: {wait: 1s, on_failure: [{then: [d]}]}
  b: {needs: [s, a], wait: 1s}
  c: {wait: 1s}
  d: {needs: [b], wait: 1s}
  e: {needs: [a], wait: 1s}
""")
    assert {id_: node.needs for id_, node in definition.nodes.items()} == {
        "s": (), "a": ("s",), "b": ("s", "a"), "c": ("s",), "d": ("b", "a"), "e": ("a",),
    }  # fmt: skip
    assert definition.top.roots == ("s",)
    assert definition.nodes["a"].rescuers == {"d"}
    assert definition.nodes["a"].dependents == ("b", "d", "e")
    switch = definition.nodes["s"].kind
    assert isinstance(switch, Switch)
    assert [case.then for case in switch.cases] == [("a",), ("a", "b")]
    assert switch.otherwise == ("c",)


def test_kinds_and_values_have_their_defaults() -> None:
    definition = nodes("  a: {fail: {code: X}}\n  b: {finish: {}}\n  c: {needs: [a], wait: 1s}")
    assert definition.on_error is OnError.STOP
    assert definition.nodes["c"].join.kind is JoinKind.ALL
    fail, finish = definition.nodes["a"].kind, definition.nodes["b"].kind
    assert isinstance(fail, Fail)
    assert (fail.message, fail.output) == (None, None)
    assert finish == Finish(None)


@pytest.mark.parametrize(
    ("join", "kind"),
    [
        ("all", JoinKind.ALL),
        ("strict", JoinKind.STRICT),
        ("any", JoinKind.ANY),
        ("settled", JoinKind.SETTLED),
        ("{quorum: 1}", JoinKind.QUORUM),
    ],
)
def test_a_join_has_its_kind(join: str, kind: JoinKind) -> None:
    definition = nodes(f"  a: {{wait: 1s}}\n  b: {{needs: [a], wait: 1s, join: {join}}}")
    assert definition.nodes["b"].join.kind is kind


def test_a_node_is_known_to_have_survivors_if_one_may_run_after_it_failed() -> None:
    definition = nodes("""
  a: {wait: 1s}
  b: {needs: [a], wait: 1s}
  c: {needs: [b], wait: 1s, join: strict}
  d: {needs: [b], wait: 1s, join: settled}
  e: {needs: [c], wait: 1s}
""")
    survivors = {id_ for id_, node in definition.nodes.items() if node.survivors}
    assert survivors == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("a: {wait: 1s, join: any}", "nodes.a.join", "no edge leads to this node"),
        (
            "a: {wait: 1s}\n  b: {needs: [a], wait: 1s, join: {quorum: 2}}",
            "nodes.b.join.quorum",
            "2 of 1 nodes can never end well",
        ),
        (
            "a: {switch: {cases: [{when: 'true', then: [zz]}]}}",
            "nodes.a.switch.cases[0].then[0]",
            "there is no node 'zz'",
        ),
        (
            "a: {switch: {cases: [{when: 'true', then: []}], else: [zz]}}",
            "nodes.a.switch.else[0]",
            "there is no node 'zz'",
        ),
        (
            "a: {wait: 1s, on_failure: [{then: [zz]}]}",
            "nodes.a.on_failure[0].then[0]",
            "there is no node 'zz'",
        ),
        ("a: {wait: 1s, on_failure: [{then: [a]}]}", "nodes.a.needs", "a cycle: a -> a"),
        (
            "a: {wait: 1s, on_failure: [{when: 'true'}]}",
            "nodes.a.on_failure[0]",
            "it has exactly one of `then`, `output` and `fail`",
        ),
        (
            "a: {wait: 1s, on_failure: [{output: 1, fail: {code: X}}]}",
            "nodes.a.on_failure[0]",
            "it has exactly one of `then`, `output` and `fail`",
        ),
        (
            "a: {wait: 1s, on_failure: [{output: 1}, {output: 2}]}",
            "nodes.a.on_failure[0]",
            "it has no `when`, so those after it never count",
        ),
        (
            "a: {switch: {cases: [{when: 'true', then: []}]}}\n  b: {needs: [a], wait: 1s}",
            "nodes.b.needs[0]",
            "no case of the switch 'a' leads here, so it would never run",
        ),
        (
            "a: {switch: {cases: [{when: input.x, then: []}]}, on_failure: [{output: 1}]}",
            "nodes.a.on_failure[0].output",
            "a switch has no output that another could stand in for",
        ),
        ("a: {transform: '${error.code}'}", "nodes.a.transform", "`error` is there in"),
        (
            "a: {wait: 1s}\n  b: {needs: [a], transform: '${join.first.id}'}",
            "nodes.b.transform",
            "`join` is there with",
        ),
        (
            "a: {wait: 1s}\n  b: {needs: [a], wait: 1s, join: {quorum: '${nodes.a.output}'}}",
            "nodes.b.join.quorum",
            "'a' need not have ended when the first of the needs has",
        ),
    ],
)
def test_what_cannot_work_is_refused(text: str, path: str, reason: str) -> None:
    found = problems(f"  {text}")
    assert list(found) == [path]
    assert found[path].startswith(reason)


def test_a_quorum_may_read_what_all_of_the_needs_need() -> None:
    definition = nodes("""
  n: {transform: 1}
  a: {needs: [n], wait: 1s}
  b: {needs: [n], wait: 1s}
  c: {needs: [a, b], wait: 1s, join: {quorum: "${nodes.n.output}"}}
""")
    assert definition.nodes["c"].join.quorum is not None


def test_a_quorum_may_not_read_what_an_early_join_let_go_by() -> None:
    found = problems("""
  n: {wait: 1s}
  m: {wait: 1s}
  early: {needs: [n, m], wait: 1s, join: any}
  a: {needs: [early], wait: 1s}
  c: {needs: [a], wait: 1s, join: {quorum: "${nodes.n.output}"}}
""")
    assert list(found) == ["nodes.c.join.quorum"]


def test_a_settled_node_may_need_a_switch_that_does_not_name_it() -> None:
    definition = nodes("""
  a: {switch: {cases: [{when: 'true', then: []}]}}
  b: {needs: [a], wait: 1s, join: settled}
""")
    assert definition.nodes["b"].needs == ("a",)


def test_the_output_of_the_run_reads_neither_error_nor_join() -> None:
    assert list(problems("  a: {wait: 1s}", "output: '${error.code}'")) == ["output"]


@pytest.mark.parametrize(
    ("end", "extra", "reason"),
    [
        ("[{on: any, then: [x]}]", "", "there is no node 'x'"),
        ("[{on: any, then: [b]}]", "  b: {wait: 1s}\n", "only a `task`, `http` or `grpc` runs"),
        (
            "[{on: any, then: [b]}]",
            "  b: {task: {handler: h}, needs: [a]}\n",
            "stands for itself",
        ),
    ],
)
def test_what_cannot_run_at_the_end_is_refused(end: str, extra: str, reason: str) -> None:
    document = f"name: w\nat_end: {end}\nnodes:\n  a: {{task: {{handler: h}}}}\n{extra}"
    with pytest.raises(DefinitionInvalid, match=reason):
        parse(document.encode(), known_lanes=LANES)
