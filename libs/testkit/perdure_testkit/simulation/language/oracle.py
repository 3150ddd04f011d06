"""What a definition comes to when nothing goes wrong: the language in its own words.

It shares no line with the machine. It reads a document as the language has it, node after node,
with no events, no time and no order; so it says nothing of what depends on order, and what it says
holds for every order and every fault that is no failure of the work itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.language.closing import main_nodes
from perdure_testkit.simulation.language.edges import BLOCKS, all_nodes, inner_of, leaves
from perdure_testkit.simulation.language.place import Node
from perdure_testkit.simulation.language.reading import End, Reading, Undecided

_DEFAULT_INPUT = 2
_READ = re.compile(r"nodes\.(\w+)\.|join\.first")


@dataclass(frozen=True, slots=True)
class Expected:
    """How a run ends.

    `nodes` are the ends by scope and node, of those that do not depend on when a failure stops
    them; `failing` the nodes of which one fails the run, `output` the run's.
    """

    status: str
    nodes: Mapping[tuple[str, str], End]
    failing: frozenset[str]
    output: Any


def expected(case: Case) -> Expected | None:
    """Return how every run of the case ends, or None where that depends on order or time."""
    document, nodes = case.document, main_nodes(case.document)
    if any(_is_undecided(id_, node) for id_, node in all_nodes(document).items()):
        return None
    stops = document.get("on_error", "stop") == "stop"
    n = json.loads(case.payload).get("n", _DEFAULT_INPUT)
    reading = Reading(case.seed, n, stops)
    try:
        ends = reading.graph(nodes, "", {}, {})
    except Undecided:
        return None
    failing = frozenset(id_ for id_, end in ends.items() if end.uncaught)
    if failing:
        return Expected("failed", reading.ends, failing, None)
    shown = document.get("output", leaves(nodes))
    output = {id_: ends[id_].output for id_ in shown if ends[id_].status == "completed"}
    return Expected("completed", reading.ends, failing, output)


def _is_undecided(id_: str, node: Node) -> bool:
    """Tell whether order or time decides what the node comes to."""
    early = node.get("join") == "any" or isinstance(node.get("join"), dict)
    inner = inner_of(node)
    own = {id_, *(all_nodes({"nodes": inner}) if inner is not None else ())}
    reads = set(_READ.findall(json.dumps(node))) - own
    timed = "timeout" in node and any(kind in node for kind in BLOCKS)
    stops_early = "stop_when" in node.get("for_each", ())
    timed = timed or "deadline" in node or "cancel_rest" in node
    return "finish" in node or "run" in node or timed or stops_early or (early and bool(reads))
