"""Random small workflows for property tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

PAYLOADS = (b"null", b'{"n": 1}', b"18446744073709551616", b'{"n": "text"}')
"""Outputs that some of the workflows' expressions take and others do not."""

INPUTS = (b'{"n": 1}', b'{"n": 0}', b"{}")
"""Inputs of which the last lacks what most of the workflows read."""

Node = dict[str, Any]

_CONDITIONS = (None, None, "true", "false", "input.n > 0")
_DEADLINES = (None, None, None, "40s", "${150 + 0 * input.n}")
_RESULTS: tuple[object, ...] = (None, None, None, {"kept": True}, "${input.n}", "${input.missing}")

_FAILS = st.just({"code": "MADE", "message": "n is ${input.n}"})
_FINISHES = st.sampled_from([{}, {"output": "${input.n}"}])
_HANDLERS = (
    st.just({"output": "${error.code}"}),
    st.just({"when": "error.code == 'BROKEN'", "output": 1}),
    st.just({"fail": {"code": "OTHER", "message": "${error.message}"}}),
)


@st.composite
def documents(draw: st.DrawFn, name: str = "flow", *, races: bool = True) -> bytes:
    """Return a valid document of one to six nodes of all kinds; with `races` some cancel the rest.

    Waits and retries take 20 s or more, so that a test's own slowness makes nothing due.
    """
    ids = [f"n{i}" for i in range(draw(st.integers(1, 6)))]
    nodes = {id_: _node(draw, ids[:i]) for i, id_ in enumerate(ids)}
    for i, id_ in enumerate(ids):
        _direct(draw, nodes[id_], ids[i + 1 :])
    for id_ in ids:
        _join(draw, id_, nodes, races=races)
    document: dict[str, object] = {"name": name, "nodes": nodes, "limits": {"age": "1d"}}
    if draw(st.booleans()):
        document["deadline"] = draw(st.sampled_from(["90s", "${600}"]))
    if draw(st.integers(0, 3)) == 0:
        document["exclusive"] = {
            "key": "one",
            "policy": draw(st.sampled_from(["queue", "replace"])),
        }
    document["on_error"] = draw(st.sampled_from(["stop", "finish_others"]))
    if draw(st.booleans()):
        document["output"] = {id_: f"${{nodes.{id_}.output}}" for id_ in ids}
    return json.dumps(document).encode()


def named_by(node: Node) -> set[str]:
    """Return the nodes that a switch or a handler of `node` names."""
    switch = node.get("switch", {"cases": []})
    cases = [case["then"] for case in switch["cases"]]
    handled = [handler.get("then", ()) for handler in node.get("on_failure", ())]
    return set().union(*cases, switch.get("else", ()), *handled)


def edges_to(id_: str, nodes: Mapping[str, Node]) -> set[str]:
    """Return the nodes that an edge leads from to a node."""
    drawn = {other for other, node in nodes.items() if id_ in named_by(node)}
    return drawn | set(nodes[id_]["needs"])


def _direct(draw: st.DrawFn, node: Node, later: Sequence[str]) -> None:
    """Let some nodes direct the run: switches, failures made and caught, ends."""
    some = st.lists(st.sampled_from(later), unique=True, max_size=2) if later else st.just([])
    flows = {0: "switch", 1: "switch", 2: "fail", 3: "finish"}
    flow = flows.get(draw(st.integers(0, 15)))
    if flow is not None:
        for other in ("task", "http", "wait", "transform", "retry", "timeout", "deadline"):
            node.pop(other, None)
        case = st.fixed_dictionaries({"when": st.sampled_from(_CONDITIONS[2:]), "then": some})
        cases = st.lists(case, min_size=1, max_size=2)
        switch = st.fixed_dictionaries({"cases": cases}, optional={"else": some})
        node[flow] = draw({"switch": switch, "fail": _FAILS, "finish": _FINISHES}[flow])
    if draw(st.integers(0, 3)) == 0:
        then = st.fixed_dictionaries({"then": some})
        others = () if flow == "switch" else _HANDLERS
        node["on_failure"] = [draw(st.one_of(then, then, *others))]


def _join(draw: st.DrawFn, id_: str, nodes: Mapping[str, Node], *, races: bool) -> None:
    """Give a node with edges a join; one that a switch does not name must be settled."""
    node, edges = nodes[id_], edges_to(id_, nodes)
    if any("switch" in nodes[one] and id_ not in named_by(nodes[one]) for one in node["needs"]):
        node["join"] = "settled"
    elif edges:
        quorum = {"quorum": draw(st.integers(1, len(edges)))}
        node["join"] = draw(st.sampled_from(["all", "all", "strict", "any", "settled", quorum]))
        if node["join"] in ("any", quorum):
            node["cancel_rest"] = races and draw(st.booleans())
        if node["join"] in ("any", quorum) and "transform" in node:
            node["transform"] = ["${join.first.id}", "${coalesce(join.first.output, 0)}"]


def _node(draw: st.DrawFn, earlier: Sequence[str]) -> Node:
    needs = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
    read = f"nodes.{draw(st.sampled_from(needs))}.output" if needs else "input.n"
    found: Node = {**draw(st.sampled_from(_kinds(read))), "needs": needs}
    condition = draw(st.sampled_from(_CONDITIONS))
    result = draw(st.sampled_from(_RESULTS))
    deadline = draw(st.sampled_from(_DEADLINES))
    if deadline is not None and "transform" not in found:
        found["deadline"] = deadline
    if condition is not None:
        found["when"] = condition
    if result is not None:
        found["result"] = result
    return found


def _kinds(read: str) -> list[dict[str, object]]:
    call = {"url": "https://x.example", "method": "POST"}
    return [
        {"task": {"handler": "x"}, "retry": {"max": 1, "base": "20s"}},
        {"task": {"handler": "x", "input": f"${{{read}}}"}, "timeout": "50s"},
        {"http": {**call, "effect": "provider"}},
        {"http": call},
        {"wait": "30s"},
        {"transform": [f"${{coalesce({read}, 0)}}"]},
        {"transform": f"${{{read}}}"},
    ]
