"""What a definition comes to when nothing goes wrong: the language in its own words.

It shares no line with the machine. It reads a document as `language.md` has it, node after node,
with no events, no time and no order; so it says nothing of what depends on order, and what it says
holds for every order and every fault that is no failure of the work itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from perdure_testkit.simulation.behaviour import conduct_of
from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.definitions import Document, Node, edges_to, named_by

_TERM = re.compile(
    r"(?:coalesce\(nodes\.(?P<node>\w+)\.output\.n, 0\)|nodes\.(?P<own>\w+)\.output\.n"
    r"|(?P<input>input\.n))(?: (?P<operator>[+>]) (?P<right>\d+))?"
)
_READ = re.compile(r"nodes\.(\w+)\.|join\.first")
_DEFAULT_INPUT = 2
_DEFAULT_RETRIES = {"io": 5, "slow": 2}


@dataclass(frozen=True, slots=True)
class End:
    """How a node ends: `taken` are the nodes its edges lead to, None for all."""

    status: str
    output: Any = None
    taken: tuple[str, ...] | None = None
    code: str = ""

    @property
    def uncaught(self) -> bool:
        """Whether the run fails of it."""
        return self.status == "failed" and self.taken is None


@dataclass(frozen=True, slots=True)
class Expected:
    """How a run ends; `nodes` only where they do not depend on when a failure stops them."""

    status: str
    nodes: dict[str, End] | None
    failing: frozenset[str]
    output: Any


def expected(case: Case) -> Expected | None:
    """Return how every run of the case ends, or None where that depends on order."""
    nodes = case.document["nodes"]
    if any(_depends_on_order(id_, nodes) for id_ in nodes):
        return None
    reading = _Reading(case.seed, case.document, json.loads(case.payload).get("n", _DEFAULT_INPUT))
    ends = reading.read()
    failing = frozenset(id_ for id_, end in ends.items() if end.uncaught)
    if failing:
        stops = case.document.get("on_error", "stop") == "stop"
        return Expected("failed", None if stops else ends, failing, None)
    return Expected("completed", ends, failing, _output(case.document, ends))


def _depends_on_order(id_: str, nodes: dict[str, Node]) -> bool:
    """Tell whether the node ends the run, or may run before what it reads has ended."""
    node = nodes[id_]
    early = node.get("join") == "any" or isinstance(node.get("join"), dict)
    reads = set(_READ.findall(json.dumps(node))) - {id_}
    return "finish" in node or (early and bool(reads))


def _output(document: Document, ends: dict[str, End]) -> Any:
    nodes = document["nodes"]
    needed = {need for id_ in nodes for need in edges_to(id_, nodes)}
    shown = nodes if "output" in document else [id_ for id_ in nodes if id_ not in needed]
    return {id_: ends[id_].output for id_ in shown if ends[id_].status == "completed"}


@dataclass(slots=True)
class _Reading:
    seed: int
    document: Document
    n: int
    ends: dict[str, End] = field(default_factory=dict)

    def read(self) -> dict[str, End]:
        """Read the nodes in the order of their ids, in which no edge leads back."""
        for id_, node in self.document["nodes"].items():
            self.ends[id_] = self._end(id_, node)
        return self.ends

    def _end(self, id_: str, node: Node) -> End:
        turn = self._join(id_, node)
        if turn != "run":
            return End(turn)
        if "when" in node and not self._value(node["when"], None):
            return End("skipped")
        return self._run(id_, node)

    def _join(self, id_: str, node: Node) -> str:
        arrivals = list(self._arrivals(id_))
        well, join = arrivals.count("well"), node.get("join", "all")
        if join == "any" or isinstance(join, dict):
            return "run" if well >= (join["quorum"] if isinstance(join, dict) else 1) else "skipped"
        if join == "settled" or not arrivals:
            return "run"
        if "failed" in arrivals:
            return "cancelled"
        enough = well == len(arrivals) if join == "strict" else well > 0
        return "run" if enough else "skipped"

    def _arrivals(self, id_: str) -> Iterator[str]:
        nodes = self.document["nodes"]
        for need in sorted(edges_to(id_, nodes)):
            end = self.ends[need]
            if end.taken is not None:
                yield "well" if id_ in end.taken else "skipped"
            elif end.status == "completed":
                yield "skipped" if _only_rescues(nodes, need, id_) else "well"
            else:
                yield "skipped" if end.status == "skipped" else "failed"

    def _run(self, id_: str, node: Node) -> End:
        if "fail" in node:
            return self._caught(node, "MADE")
        if "switch" in node:
            return End("completed", taken=self._picked(node["switch"]))
        if "wait" in node:
            return self._caught(node, "EXPRESSION") if "result" in node else End("completed")
        if "transform" in node:
            return End("completed", self._shaped(node, self._render(node["transform"], None)))
        conduct = conduct_of(self.seed, id_)
        if conduct.permanent or conduct.failures > _retries(node):
            return self._caught(node, "BROKEN")
        return End("completed", self._shaped(node, json.loads(conduct.output)))

    def _caught(self, node: Node, code: str) -> End:
        for handler in node.get("on_failure", ()):
            if "when" in handler and handler["when"] != f"error.code == '{code}'":
                continue
            if "then" in handler:
                return End("failed", taken=tuple(handler["then"]), code=code)
            if "output" in handler:
                return End("completed", handler["output"], code=code)
            return End("failed", code=handler["fail"]["code"])
        return End("failed", code=code)

    def _picked(self, switch: Node) -> tuple[str, ...]:
        for case in switch["cases"]:
            if self._value(case["when"], None):
                return tuple(case["then"])
        return tuple(switch.get("else", ()))

    def _shaped(self, node: Node, output: Any) -> Any:
        return self._render(node["result"], output) if "result" in node else output

    def _render(self, template: dict[str, Any], own: Any) -> dict[str, Any]:
        return {
            key: self._value(value[2:-1], own) if isinstance(value, str) else value
            for key, value in template.items()
        }

    def _value(self, expression: str, own: Any) -> int | bool:
        found = _TERM.fullmatch(expression)
        assert found is not None, expression
        if found["input"]:
            value = self.n
        elif found["own"]:
            value = own["n"]
        else:
            end = self.ends[found["node"]]
            value = end.output["n"] if end.status == "completed" and end.output else 0
        if found["operator"] is None:
            return value
        right = int(found["right"])
        return value > right if found["operator"] == ">" else value + right


def _only_rescues(nodes: dict[str, Node], need: str, id_: str) -> bool:
    """Tell whether only a caught failure of `need` leads to the node."""
    return need not in nodes[id_].get("needs", ()) and id_ in named_by(nodes[need])


def _retries(node: Node) -> int:
    rules = node.get("retry")
    rule = rules[0] if isinstance(rules, list) else rules
    return int(rule["max"]) if rule else _DEFAULT_RETRIES[node.get("lane", "io")]
