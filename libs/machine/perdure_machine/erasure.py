"""What is put in the place of what was erased, and how an erasure goes through a run by parts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from perdure_machine.replacing import replace

ERASED = b'{"perdure":"erased"}'
"""Stands where a payload was; JSON, so that whoever reads one reads this."""

ERASED_TAGS = {"perdure": "erased"}
"""Stands where a run's tags were."""

ROWS_AT_ONCE = 500
"""Rows of a kind that one event of an erasure changes at most (design section 12)."""


LATE = UUID(int=0)
"""The erasure of what was found late: it belongs to whichever erased the run that it came from."""


class Part(StrEnum):
    """The parts of a run, in the order in which they are erased."""

    STEPS = "steps"  # by number: steps, tries, counters of sub-graphs, calls
    HISTORY = "history"  # by number
    SCOPES = "scopes"  # by path and generation: items, passes
    CHILDREN = "children"  # by id: runs that it started are erased too
    REST = "rest"  # the run itself, tags, signals, what it was to send, its dead letter


@dataclass(frozen=True, slots=True)
class Place:
    """How far the erasure of a run came: after this row of this part, empty for none yet."""

    erasure_id: UUID
    part: Part
    after: str = ""

    def at(self, after: str) -> Place:
        """Return the place after a further row of the same part."""
        return replace(self, after=after)

    def encoded(self) -> bytes:
        """Return what the event carries that goes on from here."""
        members = {"erasure": str(self.erasure_id), "part": self.part, "after": self.after}
        return json.dumps(members).encode()


@dataclass(frozen=True, slots=True)
class Portion:
    """The next rows of a part, up to one of them; `more` if there are others behind it."""

    upto: str
    more: bool


def first_place(erasure_id: UUID) -> Place:
    """Return where the erasure of a run begins."""
    return Place(erasure_id, Part.STEPS)


def read_place(details: bytes | None) -> Place:
    """Read what an event of an erasure carries."""
    members = json.loads(details or b"{}")
    return Place(UUID(members["erasure"]), Part(members["part"]), members["after"])


def after_part(place: Place) -> Place | None:
    """Return the beginning of the next part, None after the last."""
    parts = list(Part)
    following = parts[parts.index(place.part) + 1 :]
    return replace(place, part=following[0], after="") if following else None
