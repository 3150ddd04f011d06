"""What a document has for its end, and for other runs: deadlines, compensations, `at_end`, `emit`.

All of it is added to a whole random document, by a stream of its own.
"""

from __future__ import annotations

import json
from random import Random

from perdure_testkit.simulation.behaviour import conduct_of
from perdure_testkit.simulation.language.edges import all_nodes
from perdure_testkit.simulation.language.place import Document, Node, Nodes

EMITS, HEARS = "tells", "hears"
"""The nodes of which one emits a signal that the other one waits for."""

AT_END = "last"
"""What the ids of nodes begin with that are done when a run ends."""

COMPENSATION = ".compensate"
"""What the node of a compensation adds to the node that it compensates."""

_ENDS = ("completed", "failed", "cancelled", "timed_out", "any", "any")


def add_closing(seed: int, random: Random, document: Document) -> None:
    """Give some documents some of these."""
    if random.random() < 0.08:
        document["deadline"] = random.choice(["20s", "60s"])
    if random.random() < 0.2:
        _compensate(random, document)
    if random.random() < 0.15:
        _race(random, document)
    if random.random() < 0.12:
        _tell(seed, random, document)
    if random.random() < 0.12:
        _do_last(random, document)


def main_nodes(document: Document) -> Nodes:
    """Return the nodes of the top graph that run before the end."""
    last = {id_ for entry in document.get("at_end", ()) for id_ in entry["then"]}
    return {id_: node for id_, node in document["nodes"].items() if id_ not in last}


def node_of_step(name: str) -> str:
    """Return the node whose step, or whose compensation, has a name."""
    return name.removesuffix(COMPENSATION)


def _compensate(random: Random, document: Document) -> None:
    if random.random() < 0.5:
        document["compensate_on_cancel"] = True
    for node in all_nodes(document).values():
        if ("task" in node or "http" in node) and random.random() < 0.5:
            node["compensate"] = {"task": {"handler": "undo"}}
            if random.random() < 0.3:
                node["compensate"]["when"] = "attempted"


def _race(random: Random, document: Document) -> None:
    """Let joins that need not wait for all cancel what they do not wait for."""
    for node in all_nodes(document).values():
        early = node.get("join") == "any" or isinstance(node.get("join"), dict)
        if early and random.random() < 0.7:
            node["cancel_rest"] = True


def _tell(seed: int, random: Random, document: Document) -> None:
    """Let a run send itself a signal that it waits for, for ever if that gets lost."""
    nodes = document["nodes"]
    # A failure that stops what emits must not leave what waits for it.
    after = random.choice([*nodes, None]) if "on_error" in document else None
    data = json.loads(conduct_of(seed, "", HEARS).output)
    emit: Node = {"name": HEARS, "data": data}
    hear: Node = {"name": HEARS}
    if random.random() < 0.5:
        emit["run"] = "${run.id}"
    else:
        emit["key"] = hear["key"] = "${run.id}"
    nodes[EMITS] = {"emit": emit}
    nodes[HEARS] = {"signal": hear}
    if after is not None:
        nodes[HEARS] |= {"needs": [after], "join": "settled"}


def _do_last(random: Random, document: Document) -> None:
    entries = []
    for number in range(random.randint(1, 2)):
        id_ = f"{AT_END}{number}"
        document["nodes"][id_] = {"task": {"handler": "work"}}
        entries.append({"on": random.choice(_ENDS), "then": [id_]})
    document["at_end"] = entries
