"""Reads what the server answers to stream reads into values; the client leaves their shape open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure_streams.message import Fields


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry as it stands in a stream. `fields` is None when it was deleted meanwhile."""

    entry_id: str
    fields: Fields | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to XAUTOCLAIM: where the next scan begins, what is ours now, what has vanished.

    `vanished` counts entries that are pending and no longer there, whose ids a server before 7
    does not tell; a newer one has taken them off the pending list itself (F083).
    """

    cursor: str
    entries: Sequence[RawEntry]
    vanished: int


def read_group(reply: Any) -> dict[str, list[RawEntry]]:
    """The entries that XREADGROUP delivered, by stream key."""
    return {key.decode(): read_entries(entries) for key, entries in reply or ()}


def read_autoclaim(reply: Any) -> Claimed:
    """What XAUTOCLAIM answered; the third element is there only from servers >= 7."""
    cursor, listed = reply[0], reply[1]
    known = [item for item in listed if item is not None and item[0] is not None]
    return Claimed(cursor.decode(), read_entries(known), len(listed) - len(known))


def read_entries(listed: Any) -> list[RawEntry]:
    """The entries of a range, or of one stream in another answer."""
    return [RawEntry(entry_id.decode(), fields) for entry_id, fields in listed]
