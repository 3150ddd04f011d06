"""Erases the rows of runs that events of an erasure come to, only where there are any."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

from perdure_machine.actions import EraseRows
from perdure_machine.changes import Changes
from perdure_machine.erasure import ERASED, ERASED_TAGS, LATE, ROWS_AT_ONCE, Part, Place, Portion
from perdure_machine.node_error import ERASED_ERROR, encode_error

from perdure_store.pool import Connection
from perdure_store.sql import sql

_ERROR = encode_error(ERASED_ERROR)
_NO_RUN = UUID(int=0)


async def load_portion(connection: Connection, run_id: UUID, place: Place) -> Portion:
    """Return the next rows of a part whose rows have no numbers."""
    is_scopes = place.part is Part.SCOPES
    query = sql("erasure.next_scopes" if is_scopes else "erasure.next_children")
    after = _scope(place.after) if is_scopes else (_child(place.after),)
    rows = await connection.fetch(query, run_id, *after, ROWS_AT_ONCE + 1)
    kept = [row["place"] for row in rows[:ROWS_AT_ONCE]]
    return Portion(kept[-1] if kept else place.after, len(rows) > ROWS_AT_ONCE)


async def write_erasures(connection: Connection, changes: Sequence[Changes]) -> None:
    """Put markers in the place of payloads; send the children of runs their events."""
    for one in changes:
        run_id = one.run.run.run_id
        for erased in one.erased:
            counts = await _erase(connection, run_id, erased)
            await _count(connection, run_id, erased, counts)
        for ended in one.erasures_ended:
            await connection.execute(sql("erasure.end_run"), ended.erasure_id, run_id)


async def _erase(connection: Connection, run_id: UUID, erased: EraseRows) -> Mapping[str, int]:
    place, upto = erased.place, erased.upto
    row = await connection.fetchrow(sql(_QUERIES[place.part]), run_id, *_arguments(place, upto))
    assert row is not None
    return dict(row)


def _arguments(place: Place, upto: str) -> tuple[object, ...]:
    """Return what the query of the part takes beside the run: bounds, then markers."""
    match place.part:
        case Part.STEPS:
            return int(place.after or 0), int(upto), ERASED, _ERROR
        case Part.HISTORY:
            return int(place.after or 0), int(upto), ERASED
        case Part.SCOPES:
            return *_scope(place.after), *_scope(upto), ERASED, _ERROR
        case Part.CHILDREN:
            return _child(place.after), _child(upto), place.erasure_id
        case Part.REST:
            return ERASED, _ERROR, json.dumps(ERASED_TAGS).encode()


def _scope(place: str) -> tuple[str, int]:
    path, _, generation = place.rpartition(" ")
    return path, int(generation or -1)


def _child(place: str) -> UUID:
    return UUID(place) if place else _NO_RUN


async def _count(
    connection: Connection, run_id: UUID, erased: EraseRows, counts: Mapping[str, int]
) -> None:
    found = {kind: count for kind, count in counts.items() if count}
    if found and erased.place.erasure_id != LATE:
        await connection.execute(
            sql("erasure.count"),
            erased.place.erasure_id,
            run_id,
            list(found),
            list(found.values()),
        )


_QUERIES = MappingProxyType(
    {
        Part.STEPS: "erasure.erase_steps",
        Part.HISTORY: "erasure.erase_history",
        Part.SCOPES: "erasure.erase_scopes",
        Part.CHILDREN: "erasure.send_children",
        Part.REST: "erasure.erase_rest",
    }
)
