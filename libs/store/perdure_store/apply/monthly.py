"""Statements on the runs of one month, which name that month's tables.

One on the tables of all months opens each month's when it begins, so that it costs the more the
more months are kept (design section 6; figures in docs/decisions/0041). A row that is alone is
given as values: no array is made, sent and taken apart for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import cast
from uuid import UUID

import asyncpg
from perdure_runtime.fail_points import FailPoint

from perdure_store.apply.rowsets import Given, Row, RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.transaction import write

_DAY_MS = 86_400_000


class MonthlyStatement:
    """A query whose rows are of runs, the id of which is the first value of each.

    `:month` in its text is the end of a table's name, as in `runs_:month`.
    """

    def __init__(self, text: str, rows: RowSet, scalars: Mapping[str, str] | None = None) -> None:
        self._text = text
        self._rows = rows
        self._scalars = scalars
        self._statements: dict[tuple[str, Given], Statement] = {}

    def of(self, month: str, given: Given) -> Statement:
        """Return the statement on a month's tables, whose names end in `month`."""
        key = (month, given)
        if key not in self._statements:
            text = self._text.replace(":month", month)
            self._statements[key] = Statement(text, [self._rows], self._scalars, given=given)
        return self._statements[key]

    def queries(
        self, rows: Iterable[Row], **scalars: object
    ) -> Iterator[tuple[str, Sequence[object]]]:
        """Yield text and arguments of a query for the rows of each month."""
        for month, part in _by_month(rows).items():
            statement = self.of(month, Given.ONE if len(part) == 1 else Given.HIDDEN)
            yield statement.text, statement.arguments({self._rows.name: part}, **scalars)

    async def write(
        self, connection: Connection, fail_point: FailPoint, rows: Iterable[Row], **scalars: object
    ) -> list[asyncpg.Record]:
        """Write the rows of each month, which commit by themselves; return what is returned."""
        found: list[asyncpg.Record] = []
        for text, arguments in self.queries(rows, **scalars):
            found += await write(connection, fail_point, text, *arguments)
        return found


def _by_month(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Part rows by the month in whose tables their runs stand, by the time in the ids."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        milliseconds = cast(UUID, row[0]).int >> 80
        parts.setdefault(_month_of_day(milliseconds // _DAY_MS), []).append(row)
    return parts


@cache
def _month_of_day(day: int) -> str:
    """Return the end of the names of tables for a day since 1970, such as 202611."""
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y%m")
