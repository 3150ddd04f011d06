"""Makes a failing case smaller while it fails by the same law: fewer faults, fewer nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from perdure_runtime.errors import PerdureError

from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.language.trimming import trimmed
from perdure_testkit.simulation.world import Outcome

MAX_PLAYS = 600
"""Times that a case is played in search of a smaller one."""

Play = Callable[[Case], Outcome]


def shrink(case: Case, outcome: Outcome, play: Play) -> tuple[Case, Outcome]:
    """Return the smallest case found that breaks the same law, and how it ends."""
    assert outcome.violation is not None
    return _Shrinker(play, _law(outcome.violation)).shrink(case, outcome)


class _Shrinker:
    def __init__(self, play: Play, law: str) -> None:
        self.play = play
        self.law = law
        self.left = MAX_PLAYS

    def shrink(self, case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
        found = True
        while found and self.left > 0:
            found = False
            for smaller in _smaller(case, outcome):
                again = self._fails(smaller)
                if again is not None:
                    case, outcome, found = smaller, again, True
                    break
        return case, outcome

    def _fails(self, case: Case) -> Outcome | None:
        """Return how the case ends if it still breaks the law; an invalid one does not."""
        if self.left <= 0:
            return None
        self.left -= 1
        try:
            outcome = self.play(case)
        except PerdureError:
            return None
        same = outcome.violation is not None and _law(outcome.violation) == self.law
        return outcome if same else None


def _smaller(case: Case, outcome: Outcome) -> Iterator[Case]:
    """Yield smaller cases, the boldest first; the faults are those that struck."""
    struck = sorted(outcome.struck)
    known = len(case.faults) if case.faults is not None else len(struck) + 1
    if known > len(struck):
        yield replace(case, faults=frozenset(struck))
    if case.runs > 1:
        yield replace(case, runs=case.runs - 1)
    size = len(struck)
    while size:
        for begin in range(0, len(struck), size):
            yield replace(case, faults=frozenset(struck[:begin] + struck[begin + size :]))
        size //= 2
    for document in trimmed(case.document):
        yield replace(case, document=document)


def _law(violation: str) -> str:
    return violation.split(":")[0].split(" ")[0]
