"""Many runs at the price of one: a run that was really started, copied row by row under other ids.

The copies are what the engine would have written: each row as it stands in the database, under the
id of another run; ids and numbers that a table gives by itself are given anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from perdure_testkit.place import Place

CHUNK = 20_000
"""Runs copied by one statement, so that each ends within the time that a statement has."""

TABLES = ("runs", "steps", "history", "timers", "signal_waits", "start_keys", "outbox")

_SLOTS = 256
_IDS = """
SELECT (left($1::text, 19) || substr(md5(n::text), 1, 4) || '-'
        || substr(md5(n::text), 5, 12))::uuid AS run_id, n
  FROM generate_series($2::integer, $3::integer) AS n
"""
_COLUMNS = """
SELECT attname AS name FROM pg_attribute
 WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''
 ORDER BY attnum
"""
# What differs from one run to the next beside its id.
_VALUES = {
    "run_id": "c.run_id",
    "start_key": "CASE WHEN t.start_key IS NOT NULL THEN c.run_id::text END",
    "slot": f"c.n % {_SLOTS}",
}


async def copy_run(place: Place, run_id: UUID, count: int) -> None:
    """Copy a run of a single scope and without attempts `count` times, and ANALYZE."""
    statements = [await _statement(place, table) for table in TABLES]
    for first in range(1, count + 1, CHUNK):
        last = min(first + CHUNK - 1, count)
        for statement in statements:
            await place.execute(statement, str(run_id), first, last)
    await place.execute("ANALYZE")


async def _statement(place: Place, table: str) -> str:
    columns = [row["name"] for row in await place.fetch(_COLUMNS, table)]
    return f"""
INSERT INTO {table} ({", ".join(columns)})
SELECT {", ".join(_values(columns))}
  FROM {table} AS t CROSS JOIN ({_IDS}) AS c WHERE t.run_id = $1::uuid
"""


def _values(columns: Sequence[str]) -> list[str]:
    return [_VALUES.get(column, f"t.{column}") for column in columns]
