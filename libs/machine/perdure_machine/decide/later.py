"""What is too much for one event goes on by an internal event (design section 4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.places import TOP, At, at_top
from perdure_machine.states import TimerKind


@dataclass(frozen=True, slots=True)
class Left:
    """Nodes that are left to decide on; those that are `lost`, to the join that each names."""

    nodes: Sequence[At]
    lost: Mapping[At, str]


def go_on_later(draft: Draft, nodes: Iterable[At]) -> None:
    """Have these nodes decided by an event of their own."""
    details = json.dumps([_written(draft, at) for at in dict.fromkeys(nodes)]).encode()
    draft.actions.append(
        SetTimer(TimerKind.ADVANCE, None, 0.0, draft.run.generation, details=details)
    )


def left_for_later(details: bytes | None) -> Left:
    """Return the nodes that an event was left to decide on."""
    read: list[Any] = json.loads(details or b"[]")
    rows = [(*at_top(one),) if isinstance(one, str) else tuple(one) for one in read]
    lost = {At(*at): join for *at, join in (row for row in rows if len(row) > len(At._fields))}
    return Left([At(*row[: len(At._fields)]) for row in rows], lost)


def _written(draft: Draft, at: At) -> str | tuple[str | int, ...]:
    """Return a node as it is kept; one of the top scope as the versions before scopes wrote it."""
    if at in draft.lost:
        return (*at, draft.lost[at])
    return at.node if at.place == TOP else at
