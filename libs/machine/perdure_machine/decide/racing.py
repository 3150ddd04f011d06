"""Races: what is left over when a join has decided before all its needs have ended.

A node is left over if nothing outside of the open branches waits for it, so that cancelling it
changes how no other node ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import open_needs
from perdure_machine.definition.graph import Needs, reachable
from perdure_machine.definition.model import Node
from perdure_machine.places import At, Place


def lose_rest(draft: Draft, node: Node, place: Place) -> None:
    """Have what is left over cancelled, now that the join of `node` has decided."""
    arrived = frozenset(node.needs) - open_needs(draft, node, place)
    graph = {id_: draft.definition.nodes[id_] for id_ in draft.graph(place).nodes}
    found = left_over(graph, node.id, arrived)
    lost = [At(*place, id_) for id_ in graph if id_ in found]
    draft.require(lost)
    draft.lost |= dict.fromkeys(lost, node.id)
    draft.candidates.extend(lost)


def lost_because(draft: Draft, at: At) -> str | None:
    """Return why a node is cancelled that is left over, for the history; None if it is not."""
    join = draft.lost.get(at)
    return f"`{join}` was decided without it" if join is not None else None


def left_over(nodes: Mapping[str, Node], join: str, arrived: frozenset[str]) -> frozenset[str]:
    """Return what only the open branches of a join are for, whether it has ended or not.

    `arrived` are the needs of `join` that have ended. Every other need is the end of an open
    branch, to which belongs what leads to it and what hangs on that.
    """
    needs = {id_: node.needs for id_, node in nodes.items()}
    dependents = {id_: node.dependents for id_, node in nodes.items()}
    branches = _with_all(frozenset(needs[join]) - arrived, needs)
    others = _with_all(arrived, needs) | _with_all(frozenset({join}), dependents)
    found = _with_all(branches, dependents) - others
    while kept := _wanted_elsewhere(found, branches, join, needs, dependents):
        found -= kept
    return found


def _wanted_elsewhere(
    found: frozenset[str], branches: frozenset[str], join: str, needs: Needs, dependents: Needs
) -> frozenset[str]:
    """Return what another node waits for, and what hangs on another node as well."""
    inside = found | {join}
    return frozenset(
        id_
        for id_ in found
        if not inside.issuperset(dependents[id_])
        or (id_ not in branches and not found.issuperset(needs[id_]))
    )


def _with_all(starts: frozenset[str], edges: Needs) -> frozenset[str]:
    return reachable(starts, edges) | starts
