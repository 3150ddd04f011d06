"""What is applied in one transaction, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from perdure_machine.changes import Changes
from perdure_machine.decide.advance import MAX_INLINE_NODES
from perdure_machine.decide.first_step import TakeUp
from perdure_machine.decide.hand_over import HandOver
from perdure_machine.decide.last_report import LastReport
from perdure_machine.decide.last_wait import LastWait
from perdure_machine.events import Event
from perdure_machine.replies import Reply
from perdure_runtime.errors import PerdureError

MAX_WIDENINGS = 8 + 2 * MAX_INLINE_NODES
"""How often one event may ask for more of its run; a decision that asks on is a fault.

Each node that it begins may ask for a correlation key, and for the signals of a name.
"""


@dataclass(frozen=True, slots=True)
class OrgEvent:
    """An event and the org that its sender acts for; SQL's row must belong to it (p12)."""

    org: str
    event: Event


@dataclass(frozen=True, slots=True)
class RunEvents:
    """All events of one run in a batch, in order."""

    run_id: UUID
    events: tuple[OrgEvent, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Somebody else holds the run's lock: nothing was done, it goes alone."""


Committed = Callable[[Sequence[Changes]], None]
"""Told of what a transaction wrote, after its commit (R2)."""

Plain = HandOver | TakeUp | LastReport | LastWait
"""What is decided at once, and proved by its run's revision."""

PlainlyWritten = Callable[[Collection[Plain]], None]
"""Told what of that was written, after it."""

Meanwhile = Callable[[Mapping[UUID, Plain]], None]
"""Told what was decided, by run, while the database writes it: nothing of it is certain yet."""

Answers = tuple[Reply | PerdureError, ...]
"""One answer per event of a run, in order."""
