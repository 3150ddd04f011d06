"""Random definitions, made by a seed.

A construct of the language is a function of the `Place` where it is to stand: a new kind of node
joins `KINDS`, what any node may have joins `DECORATIONS`, what a document may have stands here.
What is made is valid, and every part of it can end within the simulation's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from perdure_testkit.simulation.chance import stream
from perdure_testkit.simulation.language.closing import add_closing
from perdure_testkit.simulation.language.decorations import DECORATIONS, add_deadlines, add_join
from perdure_testkit.simulation.language.edges import all_nodes
from perdure_testkit.simulation.language.kinds import CHILD, DEPTH_OF_CHILD, KINDS
from perdure_testkit.simulation.language.place import Document, Node, Nodes, Place, value_of

MAX_NODES = 12
"""Nodes of a whole document, and of its top graph and of a sub-graph:"""
MAX_TOP = 8
MAX_INSIDE = 3
MAX_DEPTH = 2

INPUT = {"type": "object", "properties": {"n": {"type": "integer", "default": 2}}}


def random_document(seed: int) -> Document:
    """Return the document of a seed."""
    random = stream(seed, "document")
    nodes = _Maker(random).graph(random.randint(1, MAX_TOP), (), 0)
    document: Document = {"name": "flow", "input": INPUT, "nodes": nodes}
    if random.random() < 0.4:
        document["on_error"] = "finish_others"
    if random.random() < 0.1:
        document["limits"] = {"age": random.choice(["20s", "90s"])}
    if random.random() < 0.3:
        document["output"] = {id_: f"${{nodes.{id_}.output}}" for id_ in nodes}
    _limit(stream(seed, "limits"), document)
    add_closing(seed, stream(seed, "closing"), document)
    return document


def _limit(random: Random, document: Document) -> None:
    """Let some documents have deadlines of nodes, or an exclusive key."""
    if random.random() < 0.1:
        policy = random.choice(["queue", "queue", "replace"])
        document["exclusive"] = {"key": "${input.n}", "policy": policy}
    if random.random() < 0.1:
        add_deadlines(random, all_nodes(document).values())


def random_child(seed: int) -> Document:
    """Return the document of the children of a seed's runs."""
    random = stream(seed, "child")
    nodes = _Maker(random).graph(random.randint(1, MAX_INSIDE), (), DEPTH_OF_CHILD)
    return {"name": CHILD, "input": INPUT, "nodes": nodes}


@dataclass(slots=True)
class _Maker:
    """Makes the graphs of one document; the ids of its nodes are unique in it."""

    random: Random
    made: int = 0
    numbers: count[int] = field(default_factory=count)

    def graph(self, size: int, around: Sequence[str], depth: int) -> Nodes:
        """Return a graph whose nodes may also read what is `around` it."""
        self.made += size
        ids = [f"n{next(self.numbers)}" for _ in range(size)]
        nodes: Nodes = {}
        for index, id_ in enumerate(ids):
            nodes[id_] = self._node(id_, ids[index + 1 :], nodes, around, depth)
        for id_ in ids:
            add_join(self.random, id_, nodes)
        return nodes

    def _node(
        self, id_: str, later: Sequence[str], nodes: Nodes, around: Sequence[str], depth: int
    ) -> Node:
        random = self.random
        wanted = min(len(nodes), random.choice((0, 0, 1, 1, 2, 3, 4)))
        needs = sorted(random.sample(list(nodes), wanted))
        values = [value for need in needs if (value := value_of(need, nodes[need])) is not None]
        seen = [*around, *values]

        def inside(more: Sequence[str]) -> Nodes | None:
            size = min(random.randint(1, MAX_INSIDE), MAX_NODES - self.made)
            if size < 1 or depth >= MAX_DEPTH:
                return None
            outer = [one for one in seen if one.startswith("coalesce")]
            return self.graph(size, [*outer, *more], depth + 1)

        place = Place(random, id_, seen, later, inside, depth)
        construct = random.choices([one for one, _ in KINDS], [weight for _, weight in KINDS])[0]
        node = construct(place) | ({"needs": needs} if needs else {})
        for probability, decorate in DECORATIONS:
            if random.random() < probability:
                decorate(place, node)
        return node
