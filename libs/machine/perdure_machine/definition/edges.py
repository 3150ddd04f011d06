"""The edges of a definition: those that a node's `needs` name, and those that a `then` draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perdure_machine.definition.compiling import listed, mapping, texts
from perdure_machine.definition.graph import Needs
from perdure_machine.definition.problems import Problems
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

_WAITS_FOR_ALL_EDGES = "settled"


def edges(nodes: Mapping[str, Json], base: Path, problems: Problems) -> Needs:
    """Return the nodes of a graph whose edges lead to each; a `then` to no node is noted.

    The nodes stand at `base` in the document.
    """
    members = {id_: mapping(node) for id_, node in nodes.items()}
    needs = {id_: list(dict.fromkeys(texts(node.get("needs")))) for id_, node in members.items()}
    for id_, node in members.items():
        for path, target in (*picks(node), *rescues(node)):
            if target not in needs:
                problems.add((*base, id_, *path), f"there is no node '{target}'")
            elif id_ not in needs[target]:
                needs[target].append(id_)
    return {id_: tuple(needed) for id_, needed in needs.items()}


def picks(node: Mapping[str, Json]) -> Iterator[tuple[Path, str]]:
    """Yield the nodes that a switch may take edges to, each with its place."""
    switch = mapping(node.get("switch"))
    for index, case in enumerate(listed(switch.get("cases"))):
        yield from _named(case.get("then"), ("switch", "cases", index, "then"))
    yield from _named(switch.get("else"), ("switch", "else"))


def rescues(node: Mapping[str, Json]) -> Iterator[tuple[Path, str]]:
    """Yield the nodes that a caught failure may take edges to, each with its place."""
    for index, handler in enumerate(listed(node.get("on_failure"))):
        yield from _named(handler.get("then"), ("on_failure", index, "then"))


def rescuers_of(nodes: Mapping[str, Json]) -> dict[str, frozenset[str]]:
    """Return, for each node, the nodes that only its `on_failure` leads to."""
    members = {id_: mapping(node) for id_, node in nodes.items()}
    return {
        id_: frozenset(
            target
            for _, target in rescues(node)
            if target in members
            and id_ not in texts(members[target].get("needs"))
            and target not in {picked for _, picked in picks(node)}
        )
        for id_, node in members.items()
    }


def check_picks(nodes: Mapping[str, Json], base: Path, problems: Problems) -> None:
    """Note nodes that need a switch of which no case leads to them: they would never run."""
    members = {id_: mapping(node) for id_, node in nodes.items()}
    taken = {
        id_: {target for _, target in (*picks(node), *rescues(node))}
        for id_, node in members.items()
        if "switch" in node
    }
    for id_, node in members.items():
        for index, need in enumerate(texts(node.get("needs"))):
            if node.get("join") != _WAITS_FOR_ALL_EDGES and id_ not in taken.get(need, {id_}):
                reason = f"no case of the switch '{need}' leads here, so it would never run"
                hint = f"name '{id_}' in a `then` or `else` of '{need}'"
                problems.add((*base, id_, "needs", index), reason, hint)


def _named(value: Json, where: Path) -> Iterator[tuple[Path, str]]:
    for index, target in enumerate(texts(value)):
        yield (*where, index), target
