"""What a step needs beside a worker: a place at its connection, reserved before its run is locked.

A reservation holds nothing by itself: what was not granted is given back by writing nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

CONNECTION = "connection:"
"""How the causes begin that steps are parked on because of a connection; its name follows."""


class Verdict(StrEnum):
    """What a connection says to one more step."""

    HELD = "held"  # there is a place for it
    BLOCKED = "blocked"  # there is none now: no slot, no token, or an open breaker
    UNUSABLE = "unusable"  # until a person acts: it is missing, disabled or was refused


@dataclass(frozen=True, slots=True)
class Wish:
    """A step that is to be leased under `lease_id`, and the connection that it needs.

    `chained`: it is asked for under the run's lock, so nothing is waited for.
    """

    step: int
    lease_id: UUID
    connection: str
    chained: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """The answer to a wish; `generation` is that of the connection's credentials.

    `why` says what makes an unusable connection so, for people.
    """

    connection: str
    verdict: Verdict
    generation: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a try tells of its connection: `category` is its error's class, None if it went well.

    `retry_after` seconds are what the other side asked for.
    """

    connection: str
    category: str | None
    generation: int = 0
    retry_after: float | None = None
    lease_id: UUID | None = None


def cause_of(connection: str) -> str:
    """Return the cause that steps are parked on because of a connection."""
    return CONNECTION + connection
