"""The suppression lists of the engine in memory."""

from __future__ import annotations

from perdure_machine.memory.rows import RunRow
from perdure_machine.subjects import EVERY_PURPOSE, normal


class Suppressions:
    """Who of an org must not be worked on, and for what."""

    def __init__(self) -> None:
        self._listed: set[tuple[str, str, str]] = set()

    def add(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Forbid work about a subject, for one purpose or for every."""
        self._listed.add((org, normal(subject), purpose))

    def remove(self, org: str, subject: str, purpose: str = EVERY_PURPOSE) -> None:
        """Allow again what was forbidden so."""
        self._listed.discard((org, normal(subject), purpose))

    def of_steps(self, row: RunRow) -> dict[int, bool]:
        """Tell of every step of a run whether its work is forbidden."""
        return {number: self._forbids(row, number) for number in row.steps}

    def _forbids(self, row: RunRow, number: int) -> bool:
        about = row.subjects.get(number)
        if about is None:
            return False
        subject = (row.state.org, normal(about.subject))
        return any(
            (*subject, purpose) in self._listed for purpose in (about.purpose, EVERY_PURPOSE)
        )
