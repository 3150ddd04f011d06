"""Constructs of the language that this version does not have: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.problems import Problems
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

DOCUMENT = frozenset({"trigger"})
KINDS = frozenset(
    {
        "approval",
    }
)
NODE = KINDS
WAIT = frozenset({"until", "calendar", "zone"})
BLOCKS = ("for_each", "repeat", "group")


def without_later(document: dict[str, Json], problems: Problems) -> dict[str, Json]:
    """Return the document without constructs of later versions, each noted as a problem."""
    kept = _without(document, DOCUMENT, (), problems)
    nodes = kept.get("nodes")
    if isinstance(nodes, dict):
        kept["nodes"] = {id_: _node(node, ("nodes", id_), problems) for id_, node in nodes.items()}
    return kept


def is_later_kind(node: Mapping[str, Json]) -> bool:
    """Tell whether a node of the document has a kind of a later version."""
    return not KINDS.isdisjoint(node)


def _node(node: Json, path: Path, problems: Problems) -> Json:
    if not isinstance(node, dict):
        return node
    kept = _without(node, NODE, path, problems)
    for kind, later in (("wait", WAIT),):
        body = kept.get(kind)
        if isinstance(body, dict):
            kept[kind] = _without(body, later, (*path, kind), problems)
    for kind in BLOCKS:
        body = kept.get(kind)
        if isinstance(body, dict):
            kept[kind] = _block(body, (*path, kind), problems)
    return kept


def _block(body: Mapping[str, Json], path: Path, problems: Problems) -> dict[str, Json]:
    nodes = body.get("nodes")
    if not isinstance(nodes, dict):
        return dict(body)
    inside = (*path, "nodes")
    return {
        **body,
        "nodes": {id_: _node(node, (*inside, id_), problems) for id_, node in nodes.items()},
    }


def _without(
    members: dict[str, Json], later: frozenset[str], path: Path, problems: Problems
) -> dict[str, Json]:
    for key in members:
        if key in later:
            _note((*path, key), key, problems)
    return {key: value for key, value in members.items() if key not in later}


def _note(path: Path, name: str, problems: Problems) -> None:
    problems.add(path, f"not in this version yet: {name}")
