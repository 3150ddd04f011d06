"""Where the table of transitions leads."""

from __future__ import annotations

from functools import cache

from perdure_machine.states import StepStatus
from perdure_machine.transitions import TABLE


@cache
def reachable(source: StepStatus) -> frozenset[StepStatus]:
    """Return where moves lead from a state, in any number."""
    found, open_ = {source}, [source]
    while open_:
        here = open_.pop()
        for transition in TABLE.values():
            if here in transition.sources and transition.target not in found:
                found.add(transition.target)
                open_.append(transition.target)
    return frozenset(found)
