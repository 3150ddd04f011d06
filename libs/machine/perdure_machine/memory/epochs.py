"""Whether calls may begin that no key protects, for the engine in memory (protocol p4)."""

from __future__ import annotations

from dataclasses import dataclass

from perdure_machine.memory.rows import RunRow
from perdure_machine.view import Epoch


@dataclass(slots=True)
class Epochs:
    """The number of the epoch, when it was begun, and whether this database is the one of it.

    `lossless`: the operator has said that failovers lose nothing.
    """

    number: int = 0
    begun_at: float = float("-inf")
    is_open: bool = True
    lossless: bool = False

    def seen_by(self, row: RunRow) -> Epoch:
        """Return the epoch as a run sees it."""
        return Epoch(self.number, self.is_open, row.created_at <= self.begun_at)

    def fail_over(self) -> None:
        """Go on as another database, which has forgotten nothing only if the operator says so."""
        self.is_open = self.is_open and self.lossless

    def begin_next(self, now: float) -> None:
        """Begin the next epoch on this database."""
        self.number += 1
        self.begun_at = now
        self.is_open = True
