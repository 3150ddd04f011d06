"""Smaller documents than a given one, for shrinking."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from perdure_testkit.simulation.language.closing import EMITS, HEARS
from perdure_testkit.simulation.language.edges import all_nodes, edges_to, graphs_of
from perdure_testkit.simulation.language.place import Document, Nodes

_OF_DOCUMENT = (
    *("output", "limits", "on_error", "exclusive"),
    *("deadline", "compensate_on_cancel", "at_end"),
)
_OF_NODE = (
    *("on_failure", "when", "result", "retry", "timeout", "deadline", "join", "lane", "needs"),
    *("compensate", "cancel_rest"),
)
_OF_BLOCK = ("concurrency", "failures", "stop_when", "every", "backoff", "on_exhausted")


def trimmed(document: Document) -> Iterator[Document]:
    """Yield documents that lack one thing of this one; some of them are not valid."""
    for nodes in graphs_of(document):
        for id_ in nodes:
            if len(nodes) > 1:
                yield _without_node(document, id_)
    for member in _OF_DOCUMENT:
        if member in document:
            yield {key: value for key, value in document.items() if key != member}
    for id_, node in all_nodes(document).items():
        for member in _OF_NODE:
            if member in node:
                yield _without_member(document, id_, member)
        for kind in ("for_each", "repeat"):
            for member in _OF_BLOCK:
                if member in node.get(kind, ()):
                    yield _without_member(document, id_, member, kind)


def _without_node(document: Document, id_: str) -> Document:
    if id_ == EMITS and HEARS in document["nodes"]:
        return _without_node(_without_node(document, HEARS), EMITS)
    read = re.compile(rf"coalesce\(nodes\.{id_}\.output\.\w+, 0\)")
    smaller: Document = json.loads(read.sub("input.n", json.dumps(document)))
    smaller.get("output", {}).pop(id_, None)
    _forget(smaller.get("at_end"), id_)
    if not all(entry["then"] for entry in smaller.get("at_end", ())):
        del smaller["at_end"]
    for nodes in graphs_of(smaller):
        nodes.pop(id_, None)
        for node in nodes.values():
            _forget(node, id_)
        _fit_joins(nodes)
    return smaller


def _without_member(document: Document, id_: str, member: str, kind: str = "") -> Document:
    smaller = deepcopy(document)
    node = all_nodes(smaller)[id_]
    del (node[kind] if kind else node)[member]
    for nodes in graphs_of(smaller):
        _fit_joins(nodes)
    return smaller


def _forget(value: Any, id_: str) -> None:
    """Take a node out of every list of nodes."""
    if isinstance(value, dict):
        for inner in value.values():
            _forget(inner, id_)
    elif isinstance(value, list):
        if id_ in value:
            value.remove(id_)
        for inner in value:
            _forget(inner, id_)


def _fit_joins(nodes: Nodes) -> None:
    for id_, node in nodes.items():
        if not node.get("needs", ["one"]):
            del node["needs"]
        edges, join = edges_to(id_, nodes), node.get("join")
        if join is not None and not edges:
            del node["join"]
        elif isinstance(join, dict):
            join["quorum"] = min(join["quorum"], len(edges))
