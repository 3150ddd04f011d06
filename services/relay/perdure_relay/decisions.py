"""What the relay decides, as functions of values: how much room, whose turn, what was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import attrgetter

from perdure_store.outbox import ReadyRow, SentRow
from perdure_streams.announce import Announced
from perdure_streams.message import Hint


def room(announced: Announced, *, shards: int, depth: int, ceiling: int, buffer: int) -> int:
    """How many entries a stream may still get.

    Its share of the free slots that are announced for its queue, plus a buffer, at most the lane's
    ceiling, less what it holds. Nothing where no worker is known: a row that waits in the database
    keeps its turn, an entry that waits in a stream stands in front of other orgs.
    """
    if announced.workers == 0:
        return 0
    share = -(-announced.free // shards)
    return max(0, min(share + buffer, ceiling) - depth)


def share_of(places: int, orgs: int) -> int:
    """The most rows that each of `orgs` may have of `places`: an equal share, at least one."""
    return max(1, -(-places // orgs))


@dataclass(frozen=True, slots=True)
class Turn:
    """One pass over a stream: the rows to send in order, where the next begins, what is left."""

    rows: Sequence[ReadyRow]
    after: str
    more: bool


def take_turn(
    orgs: Sequence[str], picked: Sequence[ReadyRow], *, places: int, share: int, limit: int
) -> Turn:
    """Choose at most `places` of the rows that were picked, one of each org in rotation.

    `orgs` are those that were asked for, at most `limit`, in their order, and `picked` their rows,
    at most `share` each. The next pass begins after the last org served; when all were served, it
    begins one further than this one, so that everybody is first at times.
    """
    rounds = zip_longest(*(tuple(rows) for _, rows in groupby(picked, key=attrgetter("org"))))
    rows = [row for each in rounds for row in each if row is not None][:places]
    served = {row.org for row in rows}
    everyone = len(served) == len({row.org for row in picked})
    complete = len(orgs) < limit
    after = _last_served(orgs, served, everyone=everyone, complete=complete)
    has_room = len(rows) < places
    at_share = share in Counter(row.org for row in picked).values()
    return Turn(rows, after, has_room and (at_share or not complete))


def _last_served(
    orgs: Sequence[str], served: Collection[str], *, everyone: bool, complete: bool
) -> str:
    if not orgs:
        return ""
    if everyone:
        return orgs[0] if complete else orgs[-1]
    return [org for org in orgs if org in served][-1]


def lost(rows: Sequence[SentRow], found: Mapping[str, Hint]) -> list[SentRow]:
    """The rows whose entry is gone, or is another step's: ids of two streams may be alike."""
    return [row for row in rows if not _is_entry_of(row, found.get(row.entry_id))]


def _is_entry_of(row: SentRow, hint: Hint | None) -> bool:
    return hint is not None and (hint.run_id, hint.step) == (row.run_id, row.step)
