"""Joins as pure functions: what each edge brings, and what all of them together ask for.

An edge says how the need that it comes from ended, seen from the node that it leads to. None of it
depends on order or time, so any replay of a run decides the same; only which need was the first to
end well does, and that stands on the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from perdure_machine.definition.model import JoinKind, Node
from perdure_machine.states import StepStatus
from perdure_machine.view import StepState


class Arrival(Enum):
    """What an edge has brought."""

    OPEN = auto()  # the need has not ended
    WELL = auto()
    SKIPPED = auto()  # the need was skipped, or took other edges
    FAILED = auto()  # it failed and nothing caught that, or was cancelled


class Turn(Enum):
    """What the edges of a node ask for."""

    WAIT = auto()
    RUN = auto()
    SKIP = auto()
    CANCEL = auto()


def arrival(need: Node, step: StepState | None, node: str) -> Arrival:
    """Return what the edge from `need`, whose step is `step`, brings to `node`."""
    match step.status if step is not None else None:
        case StepStatus.COMPLETED:
            return _took(step, node, otherwise=_completed(need, node))
        case StepStatus.FAILED:
            return _took(step, node, otherwise=Arrival.FAILED)
        case StepStatus.SKIPPED:
            return Arrival.SKIPPED
        case StepStatus.CANCELLED:
            return Arrival.FAILED
        case _:
            return Arrival.OPEN


def turn(kind: JoinKind, arrivals: Sequence[Arrival], quorum: int = 1) -> Turn:
    """Return what the join makes of `arrivals`; `quorum` is how many must end well."""
    match kind:
        case JoinKind.ANY | JoinKind.QUORUM:
            return _counted(arrivals, quorum)
        case _ if Arrival.OPEN in arrivals:
            return Turn.WAIT
        case JoinKind.SETTLED:
            return Turn.RUN
        case _ if Arrival.FAILED in arrivals:
            return Turn.CANCEL
        case JoinKind.STRICT:
            return Turn.SKIP if Arrival.SKIPPED in arrivals else Turn.RUN
        case JoinKind.ALL:
            return Turn.SKIP if arrivals and Arrival.WELL not in arrivals else Turn.RUN


def _counted(arrivals: Sequence[Arrival], wanted: int) -> Turn:
    well = arrivals.count(Arrival.WELL)
    if well >= wanted:
        return Turn.RUN
    return Turn.SKIP if well + arrivals.count(Arrival.OPEN) < wanted else Turn.WAIT


def _completed(need: Node, node: str) -> Arrival:
    return Arrival.SKIPPED if node in need.rescuers else Arrival.WELL


def _took(step: StepState | None, node: str, *, otherwise: Arrival) -> Arrival:
    if step is None or step.taken is None:
        return otherwise
    return Arrival.WELL if node in step.taken else Arrival.SKIPPED
