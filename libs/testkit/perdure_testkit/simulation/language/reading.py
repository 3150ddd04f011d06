"""Reads the graphs of a document in the order of their edges; see `oracle`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure_testkit.simulation.behaviour import conduct_of
from perdure_testkit.simulation.language.edges import edges_to, leaves, named_by
from perdure_testkit.simulation.language.place import Node, Nodes

_TERM = re.compile(
    r"(?:coalesce\(nodes\.(?P<node>\w+)\.output\.(?P<member>\w+), 0\)"
    r"|nodes\.(?P<own>\w+)\.output\.n|(?P<root>input\.n|item|index|carry\.c))"
    r"(?: (?P<operator>[+<>]) (?P<right>\d+))?"
)
_DEFAULT_RETRIES = {"io": 5, "slow": 2}
Values = Mapping[str, int]


class Undecided(Exception):
    """It depends on order what this comes to."""


@dataclass(frozen=True, slots=True)
class End:
    """How a node ends: `taken` are the nodes its edges lead to, None for all."""

    status: str
    output: Any = None
    taken: tuple[str, ...] | None = None
    code: str = ""

    @property
    def uncaught(self) -> bool:
        """Whether what it stands in fails of it."""
        return self.status == "failed" and self.taken is None


@dataclass(slots=True)
class Reading:
    """One reading of a document; `ends` collects what is certain of every scope's nodes."""

    seed: int
    n: int
    stops: bool
    ends: dict[tuple[str, str], End] = field(default_factory=dict)

    def graph(
        self, nodes: Nodes, scope: str, around: Mapping[str, End], values: Values
    ) -> dict[str, End]:
        """Read a graph in one scope; the order of its ids is one in which no edge leads back."""
        inside = _Scope(self, nodes, scope, dict(around), values)
        ends = {id_: inside.end(id_) for id_ in nodes}
        if not (self.stops and any(end.uncaught for end in ends.values())):
            self.ends.update({(scope, id_): end for id_, end in ends.items()})
        else:
            self._forget_inside(scope, nodes)
        return ends

    def _forget_inside(self, scope: str, nodes: Nodes) -> None:
        """Forget what is in the sub-graphs of a scope that may have been stopped at any time."""
        prefixes = tuple(f"{scope}.{id_}[" if scope else f"{id_}[" for id_ in nodes)
        for key in [key for key in self.ends if key[0].startswith(prefixes)]:
            del self.ends[key]


@dataclass(slots=True)
class _Scope:
    reading: Reading
    nodes: Nodes
    path: str
    seen: dict[str, End]
    values: Values

    def end(self, id_: str) -> End:
        node = self.nodes[id_]
        turn = self._join(id_, node)
        if turn != "run":
            found = End(turn)
        elif "when" in node and not self.value(node["when"]):
            found = End("skipped")
        else:
            found = self._run(id_, node)
        self.seen[id_] = found
        return found

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
        for need in sorted(edges_to(id_, self.nodes)):
            end = self.seen[need]
            if end.taken is not None:
                yield "well" if id_ in end.taken else "skipped"
            elif end.status == "completed":
                rescues = need not in self.nodes[id_].get("needs", ())
                yield "skipped" if rescues and id_ in named_by(self.nodes[need]) else "well"
            else:
                yield "skipped" if end.status == "skipped" else "failed"

    def _run(self, id_: str, node: Node) -> End:
        if "fail" in node:
            return _caught(node, "MADE")
        if "switch" in node:
            return End("completed", taken=self._picked(node["switch"]))
        if "wait" in node:
            return _caught(node, "EXPRESSION") if "result" in node else End("completed")
        if "emit" in node:
            return End("completed")
        if "transform" in node:
            return End("completed", self._shaped(node, self.render(node["transform"])))
        if "signal" in node:
            data = json.loads(conduct_of(self.reading.seed, self.path, id_).output)
            return End("completed", self._shaped(node, data))
        if "group" in node:
            return self._group(id_, node)
        if "for_each" in node:
            return self._for_each(id_, node)
        if "repeat" in node:
            return self._repeat(id_, node)
        conduct = conduct_of(self.reading.seed, self.path, id_)
        if conduct.permanent or conduct.failures > _retries(node):
            return _caught(node, "BROKEN")
        return End("completed", self._shaped(node, json.loads(conduct.output)))

    def _group(self, id_: str, node: Node) -> End:
        code, output, _ = self._inside(id_, node["group"], 0, {})
        return _caught(node, code) if code else End("completed", output)

    def _for_each(self, id_: str, node: Node) -> End:
        body = node["for_each"]
        items = self._items(body["in"])
        codes = [
            self._inside(id_, body, index, {"item": item, "index": index})[0]
            for index, item in enumerate(items)
        ]
        failed, tolerance = sum(map(bool, codes)), body.get("failures", {})
        share = tolerance.get("max_percent")
        too_many = failed > tolerance.get("max", 0)
        if share is not None:
            too_many = failed * 100 > share * len(items)
        if too_many:
            if tolerance.get("then", "stop") == "stop":
                self.reading._forget_inside(self.path, {id_: node})
            return _caught(node, "ITEMS_FAILED")
        return End("completed", {"count": len(items), "failed": failed})

    def _items(self, source: Any) -> list[int]:
        if isinstance(source, list):
            return source
        first, _, last = source[3:-2].rpartition(", ")
        return [int(self.value(first)), int(last)]

    def _repeat(self, id_: str, node: Node) -> End:
        body = node["repeat"]
        carry = self.render({"c": body["carry"]["c"]["init"]})
        last: Any = None
        for index in range(body["max"]):
            if "while" in body and not self.value(body["while"], carry | {"index": index}):
                return End("completed", {"passes": index, "carry": carry, "last": last})
            now = {"carry.c": carry["c"], "index": index}
            code, last, inner = self._inside(id_, body, index, now)
            if code:
                return _caught(node, code)
            carry = inner.render({"c": body["carry"]["c"]["next"]})
            after = inner.value(body["until"], carry) if "until" in body else False
            if after:
                return End("completed", {"passes": index + 1, "carry": carry, "last": last})
        met = "while" in body and not self.value(body["while"], carry | {"index": body["max"]})
        if met or body.get("on_exhausted") == "done":
            return End("completed", {"passes": body["max"], "carry": carry, "last": last})
        return _caught(node, "LOOP_EXHAUSTED")

    def _inside(self, id_: str, body: Node, index: int, values: Values) -> tuple[str, Any, _Scope]:
        """Read one scope of a node: the code it fails with, or its output; and the scope."""
        path = f"{self.path}.{id_}[{index}]" if self.path else f"{id_}[{index}]"
        nodes: Nodes = body["nodes"]
        values = {**self.values, **values}
        ends = self.reading.graph(nodes, path, self.seen, values)
        inner = _Scope(self.reading, nodes, path, {**self.seen, **ends}, values)
        codes = {end.code for end in ends.values() if end.uncaught}
        if len(codes) > 1:
            raise Undecided
        if codes:
            return codes.pop(), None, inner
        if "output" in body:
            return "", inner.render(body["output"]), inner
        shown = [id_ for id_ in leaves(nodes) if ends[id_].status == "completed"]
        return "", {id_: ends[id_].output for id_ in shown}, inner

    def _picked(self, switch: Node) -> tuple[str, ...]:
        for case in switch["cases"]:
            if self.value(case["when"]):
                return tuple(case["then"])
        return tuple(switch.get("else", ()))

    def _shaped(self, node: Node, output: Any) -> Any:
        return self.render(node["result"], output) if "result" in node else output

    def render(self, template: Node, own: Any = None) -> dict[str, Any]:
        return {
            key: self.value(value[2:-1], own=own) if isinstance(value, str) else value
            for key, value in template.items()
        }

    def value(self, expression: str, carry: Node | None = None, *, own: Any = None) -> int | bool:
        found = _TERM.fullmatch(expression)
        assert found is not None, expression
        if found["node"]:
            end = self.seen[found["node"]]
            completed = end.status == "completed" and end.output is not None
            value = end.output.get(found["member"], 0) if completed else 0
        elif found["own"]:
            value = own["n"]
        else:
            value = self._root(found["root"], carry)
        right = int(found["right"] or 0)
        match found["operator"]:
            case "<":
                return bool(value < right)
            case ">":
                return bool(value > right)
            case _:
                return int(value) + right

    def _root(self, name: str, carry: Node | None) -> int:
        if name == "input.n":
            return self.reading.n
        if carry is not None and name == "carry.c":
            return int(carry["c"])
        return self.values[name]


def _caught(node: Node, code: str) -> End:
    for handler in node.get("on_failure", ()):
        if "when" in handler and handler["when"] != f"error.code == '{code}'":
            continue
        if "then" in handler:
            return End("failed", taken=tuple(handler["then"]), code=code)
        if "output" in handler:
            return End("completed", handler["output"], code=code)
        return End("failed", code=handler["fail"]["code"])
    return End("failed", code=code)


def _retries(node: Node) -> int:
    rules = node.get("retry")
    rule = rules[0] if isinstance(rules, list) else rules
    return int(rule["max"]) if rule else _DEFAULT_RETRIES[node.get("lane", "io")]
