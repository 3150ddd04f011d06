"""Whose turn it is: orgs stand in a ring, and each turn is worth as many rows as the org weighs.

The ring is walked on from pass to pass, however few places a pass has. So between two turns of an
org that has rows, every other org gets at most its weight; that is the whole promise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perdure_store.outbox import ReadyOrg, ReadyRow
from perdure_streams.turn import Turn


@dataclass(frozen=True, slots=True)
class Seat:
    """An org in the ring, and how many rows its next turn is still worth."""

    org: str
    weight: int
    credit: int


@dataclass(frozen=True, slots=True)
class Ring:
    """The orgs of one pass in the order of their turns; `complete` if these are all there are."""

    seats: Sequence[Seat]
    complete: bool

    def shares(self, places: int) -> list[int]:
        """How many rows of each org to look at: enough for its part of the places."""
        weights = sum(seat.weight for seat in self.seats)
        rounds = -(-places // weights) if self.complete and weights else 1
        return [min(places, seat.weight * rounds) for seat in self.seats]


@dataclass(frozen=True, slots=True)
class Walk:
    """What a pass sends, in order; whose turn it then is; and whether to go on at once."""

    rows: Sequence[ReadyRow]
    turn: Turn
    more: bool


def ring_from(orgs: Sequence[ReadyOrg], turn: Turn, limit: int) -> Ring:
    """Seat the orgs that were found from the turn's org on, at most `limit` of them.

    The org whose turn it was goes on with what is left of it; with nothing left it is last, or
    comes again in a later pass when not all orgs were found.
    """
    complete = len(orgs) < limit
    seats = [Seat(one.org, one.weight, one.weight) for one in orgs]
    if seats and seats[0].org == turn.org and turn.served:
        first = seats.pop(0)
        left = first.weight - turn.served
        if left > 0:
            seats.insert(0, replace(first, credit=left))
        elif complete:
            seats.append(first)
    return Ring(tuple(seats), complete)


def walk(ring: Ring, picked: Sequence[ReadyRow], turn: Turn, places: int) -> Walk:
    """Take at most `places` of the rows that were picked, turn by turn.

    `picked` holds of each org at most its share, in the order in which the org's rows go. The walk
    ends early at an org whose share is used up while its turn is not: it may have more rows, which
    the next pass picks.
    """
    waiting = _by_org(picked)
    shares = zip(ring.seats, ring.shares(places), strict=True)
    cut = {seat.org for seat, share in shares if len(waiting[seat.org]) == share}
    rows: list[ReadyRow] = []
    seats = ring.seats
    while True:
        before = len(rows)
        for seat in seats:
            taken = waiting[seat.org][: min(seat.credit, places - len(rows))]
            del waiting[seat.org][: len(taken)]
            rows += taken
            if taken:
                turn = Turn(seat.org, seat.weight - seat.credit + len(taken))
            if len(rows) == places:
                return Walk(rows, turn, more=False)
            if len(taken) < seat.credit and seat.org in cut:
                return Walk(rows, turn, more=True)
        if not ring.complete:
            last = seats[-1]
            return Walk(rows, Turn(last.org, last.weight), more=bool(rows))
        if len(rows) == before:
            return Walk(rows, turn, more=False)
        seats = [replace(seat, credit=seat.weight) for seat in seats]


def _by_org(picked: Sequence[ReadyRow]) -> defaultdict[str, list[ReadyRow]]:
    found: defaultdict[str, list[ReadyRow]] = defaultdict(list)
    for row in picked:
        found[row.org].append(row)
    return found
