"""From ended nodes to the nodes that may begin: joins, conditions, inline work, the run's end."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto

from perdure_machine.actions import SetTimer
from perdure_machine.decide.activate import activate, skip
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import complete_run
from perdure_machine.definition.model import Node, Prefetch
from perdure_machine.states import ENDED, StepStatus, TimerKind
from perdure_machine.view import StepState

MAX_INLINE_NODES = 100
"""Nodes that one event may begin; the rest goes on by an internal event, so none takes long."""


class Join(Enum):
    """What the needs of a node say about it."""

    WAIT = auto()
    RUN = auto()
    SKIP = auto()


def advance(draft: Draft, candidates: Iterable[str]) -> None:
    """Begin each candidate whose needs allow it, and what follows from inline nodes, in order."""
    waiting = deque(candidates)
    begun = 0
    while waiting and draft.running:
        if begun == MAX_INLINE_NODES:
            _go_on_later(draft, waiting)
            return
        node = draft.definition.nodes[waiting.popleft()]
        step = _begin(draft, node)
        if step is None:
            continue
        begun += 1
        if step.status in ENDED:
            waiting.extend(node.dependents)
    if draft.running and draft.run.ended_nodes == len(draft.definition.nodes):
        complete_run(draft)


def go_on(draft: Draft, candidates: Sequence[str]) -> None:
    """Advance what an earlier event left for later; unlike that one, no step leads to it."""
    around = [one for node in candidates for one in _prefetches(draft, node)]
    draft.require(
        {node for one in around for node in one.steps},
        outputs={node for one in around for node in one.outputs},
    )
    advance(draft, candidates)


def join_of(needs: Iterable[StepState | None]) -> Join:
    """Decide the join `all`: every need ended, at least one of them well; all skipped skips.

    A need that failed uncaught has closed the run, so it is never seen here.
    """
    statuses = [need.status if need is not None else None for need in needs]
    if any(status not in ENDED for status in statuses):
        return Join.WAIT
    if statuses and all(status is StepStatus.SKIPPED for status in statuses):
        return Join.SKIP
    return Join.RUN


def _begin(draft: Draft, node: Node) -> StepState | None:
    draft.require([node.id, *node.needs])
    if draft.step_of(node.id) is not None:
        return None
    match join_of(draft.step_of(need) for need in node.needs):
        case Join.WAIT:
            return None
        case Join.SKIP:
            return skip(draft, node, "all it needs was skipped")
        case Join.RUN:
            return activate(draft, node)


def _go_on_later(draft: Draft, waiting: Iterable[str]) -> None:
    nodes = json.dumps(list(dict.fromkeys(waiting))).encode()
    draft.actions.append(
        SetTimer(TimerKind.ADVANCE, None, 0.0, draft.run.generation, details=nodes)
    )


def _prefetches(draft: Draft, node: str) -> Iterator[Prefetch]:
    """Yield what may be read when the node begins: what may be when one of its needs ends."""
    definition = draft.definition
    needs = definition.nodes[node].needs
    if not needs:
        yield definition.start_prefetch
    for need in needs:
        yield definition.nodes[need].prefetch
