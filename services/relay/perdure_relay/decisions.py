"""What the relay decides, as functions of values: how much room there is, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure_store.outbox import SentRow
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


def lost(rows: Sequence[SentRow], found: Mapping[str, Hint]) -> list[SentRow]:
    """The rows whose entry is gone, or is another step's: ids of two streams may be alike."""
    return [row for row in rows if not _is_entry_of(row, found.get(row.entry_id))]


def _is_entry_of(row: SentRow, hint: Hint | None) -> bool:
    return hint is not None and (hint.run_id, hint.step) == (row.run_id, row.step)
