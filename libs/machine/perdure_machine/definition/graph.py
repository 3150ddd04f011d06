"""The graph of a definition: who depends on whom, what is an ancestor, and cycles by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from perdure_machine.definition.problems import Problems
from perdure_machine.payload import Path

Needs = Mapping[str, tuple[str, ...]]
"""The needs of each node, by node id, in the document's order."""


def check_graph(needs: Needs, base: Path, problems: Problems) -> tuple[str, ...] | None:
    """Return the ids so that needs come first, or None when something is wrong with the graph.

    The nodes stand at `base` in the document.
    """
    sound = True
    for id_, needed in needs.items():
        for index, other in enumerate(needed):
            if other not in needs:
                problems.add((*base, id_, "needs", index), f"there is no node '{other}'")
                sound = False
    known = {id_: [n for n in needed if n in needs] for id_, needed in needs.items()}
    try:
        order = tuple(TopologicalSorter(known).static_order())
    except CycleError as error:
        cycle: list[str] = error.args[1]
        first = cycle[0]
        problems.add((*base, first, "needs"), f"a cycle: {' -> '.join(cycle)}")
        return None
    return order if sound else None


def dependents_of(needs: Needs) -> dict[str, tuple[str, ...]]:
    """Return, for each node, the nodes that need it."""
    dependents: dict[str, list[str]] = {id_: [] for id_ in needs}
    for id_, needed in needs.items():
        for other in needed:
            dependents[other].append(id_)
    return {id_: tuple(ids) for id_, ids in dependents.items()}


def reachable(starts: Iterable[str], edges: Needs) -> frozenset[str]:
    """Return every node that the edges lead to from `starts`; a start only if a cycle does.

    Edges to nodes that do not exist lead nowhere.
    """
    found: set[str] = set()
    open_ = [other for start in starts for other in edges.get(start, ())]
    while open_:
        id_ = open_.pop()
        if id_ not in found:
            found.add(id_)
            open_ += edges.get(id_, ())
    return frozenset(found)
