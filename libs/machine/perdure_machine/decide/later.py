"""What is too much for one event goes on by an internal event (design section 4)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.places import TOP, At, at_top
from perdure_machine.states import TimerKind


def go_on_later(draft: Draft, nodes: Iterable[At]) -> None:
    """Have these nodes decided by an event of their own."""
    details = json.dumps([_written(at) for at in dict.fromkeys(nodes)]).encode()
    draft.actions.append(
        SetTimer(TimerKind.ADVANCE, None, 0.0, draft.run.generation, details=details)
    )


def left_for_later(details: bytes | None) -> list[At]:
    """Return the nodes that an event was left to decide on."""
    read: list[Any] = json.loads(details or b"[]")
    return [at_top(one) if isinstance(one, str) else At(*one) for one in read]


def _written(at: At) -> str | At:
    """Return a node as it is kept; one of the top scope as the versions before scopes wrote it."""
    return at.node if at.place == TOP else at
