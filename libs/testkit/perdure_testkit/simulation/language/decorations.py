"""What any node may have besides its kind: a function that adds it for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from perdure_testkit.simulation.language.edges import BLOCKS, edges_to, named_by
from perdure_testkit.simulation.language.place import Node, Nodes, Place

_WORK = ("task", "http")
_SHAPED = ("task", "http", "transform", "signal")


def _is(node: Node, kinds: tuple[str, ...]) -> bool:
    return any(kind in node for kind in kinds)


def _when(place: Place, node: Node) -> None:
    node["when"] = f"{place.number()} > {place.random.randrange(2)}"


def _result(place: Place, node: Node) -> None:
    own = f"nodes.{place.id}.output.n"
    if _is(node, _SHAPED):
        node["result"] = {"n": place.random.choice([f"${{{own} + 1}}", f"${{{place.number()}}}"])}
    elif "wait" in node:
        node["result"] = {"n": f"${{{own}}}"}  # there is none, so it fails


def _retry(place: Place, node: Node) -> None:
    if _is(node, (*_WORK, *BLOCKS)):
        most = place.random.randint(0, 3) if _is(node, _WORK) else 1
        rule = {"max": most, "base": place.random.choice(["1s", "10s"])}
        node["retry"] = place.random.choice([rule, [{"on": ["BROKEN"], **rule}]])


def _timeout(place: Place, node: Node) -> None:
    if _is(node, _WORK):
        node["timeout"] = place.random.choice(["5s", "30s", "60s"])
    elif _is(node, BLOCKS):
        node["timeout"] = place.random.choice(["5s", "30s"])


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
"""Each with the share of nodes that get it."""


def add_deadlines(random: Random, nodes: Iterable[Node]) -> None:
    """Give some nodes deadlines, where they do not end at once and have none of their own."""
    for node in nodes:
        has_one = "deadline" in node.get("signal", ())
        lasts = _is(node, (*_WORK, *BLOCKS, "wait", "signal", "run"))
        if lasts and not has_one and random.random() < 0.3:
            node["deadline"] = random.choice(["2s", "10s", "40s"])


def add_join(random: Random, id_: str, nodes: Nodes) -> None:
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
