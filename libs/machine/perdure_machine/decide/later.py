"""What is too much for one event goes on by an internal event (design section 4)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.states import TimerKind


def go_on_later(draft: Draft, nodes: Iterable[str]) -> None:
    """Have these nodes decided by an event of their own."""
    details = json.dumps(list(dict.fromkeys(nodes))).encode()
    draft.actions.append(
        SetTimer(TimerKind.ADVANCE, None, 0.0, draft.run.generation, details=details)
    )
