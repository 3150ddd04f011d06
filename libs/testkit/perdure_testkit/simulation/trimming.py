"""Smaller documents than a given one, for shrinking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from perdure_testkit.simulation.definitions import Document, Node, edges_to

_OF_DOCUMENT = ("output", "limits", "on_error")
_OF_NODE = ("on_failure", "when", "result", "retry", "timeout", "join", "lane")


def trimmed(document: Document) -> Iterator[Document]:
    """Yield documents that lack one thing of this one; some of them are not valid."""
    for id_ in document["nodes"]:
        yield _without_node(document, id_)
    for member in _OF_DOCUMENT:
        if member in document:
            yield {key: value for key, value in document.items() if key != member}
    for id_, node in document["nodes"].items():
        for member in _OF_NODE:
            if member in node:
                yield _without_member(document, id_, member)
        if "needs" in node:
            yield _without_member(document, id_, "needs")


def _without_node(document: Document, id_: str) -> Document:
    text = json.dumps(document).replace(f"coalesce(nodes.{id_}.output.n, 0)", "input.n")
    smaller: Document = json.loads(text)
    del smaller["nodes"][id_]
    smaller.get("output", {}).pop(id_, None)
    for node in smaller["nodes"].values():
        _forget(node, id_)
    _fit_joins(smaller["nodes"])
    return smaller


def _without_member(document: Document, id_: str, member: str) -> Document:
    smaller = deepcopy(document)
    del smaller["nodes"][id_][member]
    _fit_joins(smaller["nodes"])
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


def _fit_joins(nodes: dict[str, Node]) -> None:
    for id_, node in nodes.items():
        if not node.get("needs", ["one"]):
            del node["needs"]
        edges, join = edges_to(id_, nodes), node.get("join")
        if join is not None and not edges:
            del node["join"]
        elif isinstance(join, dict):
            join["quorum"] = min(join["quorum"], len(edges))
