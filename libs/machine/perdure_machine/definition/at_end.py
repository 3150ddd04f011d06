"""Compiles what a definition has done when a run ends: nodes of their own, in no graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure_machine.definition.compiling import listed, mapping, texts
from perdure_machine.definition.draft import Draft, Drafter
from perdure_machine.definition.model import AtEnd, Task
from perdure_machine.definition.outside import CALLS
from perdure_machine.definition.problems import Problems
from perdure_machine.definition.sources import Source
from perdure_machine.expressions.values import Json

_ONLY_BETWEEN = ("needs", "join", "on_failure", "publish", "deadline", "compensate", "result")
"""What only nodes have that others need or follow."""


def at_end(members: Mapping[str, Json]) -> tuple[AtEnd, ...]:
    """Return what is done at which end."""
    entries = listed(members.get("at_end"))
    return tuple(AtEnd(str(one.get("on")), tuple(texts(one.get("then")))) for one in entries)


def named(entries: Iterable[AtEnd]) -> tuple[str, ...]:
    """Return the nodes that run at some end, each once."""
    return tuple(dict.fromkeys(id_ for one in entries for id_ in one.then))


def drafts_at_end(
    members: Mapping[str, Json],
    nodes: Mapping[str, Json],
    problems: Problems,
    known_lanes: frozenset[str],
) -> dict[str, Draft]:
    """Compile these nodes, which are among the `nodes` at the top of the document."""
    drafts: dict[str, Draft] = {}
    source = Source("", ("nodes",), nodes, nodes)
    for index, entry in enumerate(listed(members.get("at_end"))):
        for place, id_ in enumerate(texts(entry.get("then"))):
            if id_ not in nodes:
                problems.add(("at_end", index, "then", place), f"there is no node '{id_}'")
            elif id_ not in drafts:
                node = mapping(nodes[id_])
                draft = Drafter(source, id_, problems, known_lanes, ()).draft(node, node)
                if draft is not None:
                    drafts[id_] = draft
                    _check(id_, node, draft, problems)
    return drafts


def _check(id_: str, node: Mapping[str, Json], draft: Draft, problems: Problems) -> None:
    if not isinstance(draft.kind, (Task, *CALLS)):
        problems.add(("nodes", id_), "at the end of a run only a `task`, `http` or `grpc` runs")
    for member in _ONLY_BETWEEN:
        if member in node:
            reason = "a node that runs at the end stands for itself"
            problems.add(("nodes", id_, member), reason, "remove it")
