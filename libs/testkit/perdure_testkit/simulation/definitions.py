"""Random definitions over the whole language, made by a seed.

A construct is a function of the `Place` where it is to stand; a new one joins its list below. What
is made is valid, and every part of it can end within the simulation's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from perdure_testkit.simulation.chance import stream

Document = dict[str, Any]
Node = dict[str, Any]

MAX_NODES = 8
INPUT = {
    "type": "object",
    "properties": {"n": {"type": "integer", "default": 2}},
}
_VALUED = ("task", "http", "transform")
"""The kinds whose output is `{"n": <a small number>}`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is to stand: what it may read, and what it may lead to."""

    random: Random
    id: str
    values: Sequence[str]
    later: Sequence[str]

    def number(self) -> str:
        """Return an expression for a small number."""
        if self.values and self.random.random() < 0.8:
            return f"coalesce(nodes.{self.random.choice(self.values)}.output.n, 0)"
        return "input.n"

    def some_later(self, most: int = 2) -> list[str]:
        """Return some of the nodes that come later."""
        wanted = min(len(self.later), self.random.randint(0, most))
        return sorted(self.random.sample(self.later, wanted))


def random_document(seed: int) -> Document:
    """Return the document of a seed."""
    random = stream(seed, "document")
    ids = [f"n{number}" for number in range(random.randint(1, MAX_NODES))]
    nodes: dict[str, Node] = {}
    for index, id_ in enumerate(ids):
        nodes[id_] = _node(random, id_, ids[:index], ids[index + 1 :], nodes)
    for id_ in ids:
        _join(random, id_, nodes)
    document: Document = {"name": "flow", "input": INPUT, "nodes": nodes}
    if random.random() < 0.4:
        document["on_error"] = "finish_others"
    if random.random() < 0.1:
        document["limits"] = {"age": random.choice(["20s", "90s"])}
    if random.random() < 0.3:
        document["output"] = {id_: f"${{nodes.{id_}.output}}" for id_ in ids}
    return document


def _node(
    random: Random, id_: str, earlier: Sequence[str], later: Sequence[str], nodes: dict[str, Node]
) -> Node:
    needs = sorted(random.sample(earlier, min(len(earlier), random.choice((0, 0, 1, 1, 2, 3, 4)))))
    values = [need for need in needs if any(kind in nodes[need] for kind in _VALUED)]
    place = Place(random, id_, values, later)
    construct = random.choices([one for one, _ in KINDS], [weight for _, weight in KINDS])[0]
    node = {**construct(place), "needs": needs}
    if not needs:
        del node["needs"]
    for probability, decorate in DECORATIONS:
        if random.random() < probability:
            decorate(place, node)
    return node


def _task(place: Place) -> Node:
    node: Node = {"task": {"handler": "work"}}
    if place.random.random() < 0.5:
        node["task"]["input"] = {"n": f"${{{place.number()}}}"}
    if place.random.random() < 0.1:
        node["lane"] = "slow"
    return node


def _http(place: Place) -> Node:
    effects: list[object] = ["provider", "provider", {"kind": "provider", "keep": "8s"}, "none"]
    effect = place.random.choice([*effects, None])
    call: Node = {"url": "https://outside.example/do"}
    if effect is not None:
        call |= {"method": "POST", "effect": effect}
    return {"http": call}


def _wait(place: Place) -> Node:
    return {"wait": place.random.choice(["0s", "1s", "10s", "40s"])}


def _transform(place: Place) -> Node:
    return {"transform": {"n": f"${{{place.number()} + 1}}"}}


def _switch(place: Place) -> Node:
    cases = [
        {"when": f"{place.number()} > {place.random.randrange(3)}", "then": place.some_later()}
        for _ in range(place.random.randint(1, 2))
    ]
    switch: Node = {"cases": cases}
    if place.random.random() < 0.7:
        switch["else"] = place.some_later()
    return {"switch": switch}


def _fail(place: Place) -> Node:
    return {"fail": {"code": "MADE", "message": f"n is ${{{place.number()}}}"}}


def _finish(place: Place) -> Node:
    return {"finish": {"output": f"${{{place.number()}}}"} if place.random.random() < 0.7 else {}}


KINDS: list[tuple[Callable[[Place], Node], int]] = [
    (_task, 10),
    (_http, 8),
    (_transform, 4),
    (_wait, 4),
    (_switch, 4),
    (_fail, 1),
    (_finish, 1),
]
"""Every kind of node, with its weight."""


def _when(place: Place, node: Node) -> None:
    node["when"] = f"{place.number()} > {place.random.randrange(2)}"


def _result(place: Place, node: Node) -> None:
    if any(kind in node for kind in _VALUED):
        own = f"nodes.{place.id}.output.n"
        node["result"] = {"n": place.random.choice([f"${{{own} + 1}}", f"${{{place.number()}}}"])}
    elif "wait" in node:
        node["result"] = {"n": f"${{nodes.{place.id}.output.n}}"}  # there is none: it fails


def _retry(place: Place, node: Node) -> None:
    if "task" in node or "http" in node:
        rule = {"max": place.random.randint(0, 3), "base": place.random.choice(["1s", "10s"])}
        node["retry"] = place.random.choice([rule, [{"on": ["BROKEN"], **rule}]])


def _timeout(place: Place, node: Node) -> None:
    if "task" in node or "http" in node:
        node["timeout"] = place.random.choice(["5s", "30s", "60s"])


def _on_failure(place: Place, node: Node) -> None:
    then: Node = {"then": place.some_later()}
    output: Node = {"output": {"n": 7}}
    made: Node = {"fail": {"code": "OTHER", "message": "${error.code}"}}
    handlers = [then] if "switch" in node else [then, output, output, made]
    last = place.random.choice(handlers)
    first = {"when": "error.code == 'BROKEN'", **place.random.choice(handlers)}
    node["on_failure"] = place.random.choice([[last], [first], [first, last]])


DECORATIONS: list[tuple[float, Callable[[Place, Node], None]]] = [
    (0.15, _when),
    (0.2, _result),
    (0.3, _retry),
    (0.1, _timeout),
    (0.35, _on_failure),
]
"""What any node may have besides its kind, with the share of nodes that get it."""


def named_by(node: Node) -> set[str]:
    """Return the nodes that a switch or a handler of `node` names."""
    switch = node.get("switch", {"cases": []})
    cases = [case["then"] for case in switch["cases"]]
    handled = [handler.get("then", ()) for handler in node.get("on_failure", ())]
    return set().union(*cases, switch.get("else", ()), *handled)


def edges_to(id_: str, nodes: dict[str, Node]) -> set[str]:
    """Return the nodes that an edge leads from to a node."""
    drawn = {other for other, node in nodes.items() if id_ in named_by(node)}
    return drawn | set(nodes[id_].get("needs", ()))


def _join(random: Random, id_: str, nodes: dict[str, Node]) -> None:
    """Give a node with edges a join; one that a switch does not name must be settled."""
    node, edges = nodes[id_], edges_to(id_, nodes)
    needs = node.get("needs", ())
    if any("switch" in nodes[one] and id_ not in named_by(nodes[one]) for one in needs):
        node["join"] = "settled"
    elif edges and random.random() < 0.6:
        quorum = {"quorum": random.randint(1, len(edges))}
        join = random.choice(["all", "strict", "any", "settled", quorum])
        node["join"] = join
        if join in ("any", quorum) and "transform" in node and random.random() < 0.5:
            node["transform"] = {"n": 1, "first": "${join.first.id}"}
