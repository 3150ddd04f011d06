"""Rows of one shape as an argument of a query: one array per column, declared by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

Row = tuple[object, ...]

_PLACEHOLDER = re.compile(r"(?<!:):([a-z_]+)(?:\.([a-z_]+))?")


class Given(Enum):
    """How a statement is given its rows.

    As `ARRAYS` there may be any number. `HIDDEN` arrays do not let the planner see how many there
    are, who then finds no plan better than the one for any number, and keeps it. `ONE` row is given
    as its values, which nothing has to be joined with.
    """

    ARRAYS = "${number}::{type}[]"
    HIDDEN = "(SELECT ${number}::{type}[])"
    ONE = "${number}::{type}"


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows that a query takes as `:name`, which stands for a table `u` of all of them.

    `columns` are name and type of each column, in the order of a row; `:name.column` is the array
    of one of them.
    """

    name: str
    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, name: str, columns: str) -> RowSet:
        """Read columns that are written like `run_id uuid, step integer`."""
        pairs = (column.split() for column in columns.split(","))
        return cls(name, tuple((column, type_) for column, type_ in pairs))


class Statement:
    """A query whose arguments are row sets and single values; `scalars` are name and type."""

    def __init__(
        self,
        text: str,
        row_sets: Sequence[RowSet],
        scalars: Mapping[str, str] | None = None,
        *,
        given: Given = Given.ARRAYS,
    ) -> None:
        self._row_sets = tuple(row_sets)
        self._scalars = tuple(scalars or {})
        self._given = given
        self._tokens = _tokens(self._row_sets, scalars or {}, given)
        self.text = _PLACEHOLDER.sub(self._bound, text)

    def arguments(
        self, rows: Mapping[str, Iterable[Row]], **scalars: object
    ) -> list[Sequence[object] | object]:
        """Return the arguments of the text: those of every row set, then the single values.

        Raises KeyError for a row set or value that is missing, ValueError for a row's width, and
        for more or less than one row where one is taken.
        """
        arguments: list[Sequence[object] | object] = []
        for row_set in self._row_sets:
            columns = self._columns(rows[row_set.name])
            if columns and len(columns) != len(row_set.columns):
                raise ValueError(f"a row of {row_set.name} has {len(columns)} values")
            arguments += columns or [()] * len(row_set.columns)
        return arguments + [scalars[name] for name in self._scalars]

    def _columns(self, rows: Iterable[Row]) -> Sequence[object]:
        if self._given is Given.ONE:
            (row,) = rows
            return row
        return list(zip(*rows, strict=True))

    def _bound(self, placeholder: re.Match[str]) -> str:
        return self._tokens[placeholder[1], placeholder[2]]


def _tokens(
    row_sets: Sequence[RowSet], scalars: Mapping[str, str], given: Given
) -> dict[tuple[str, str | None], str]:
    """Return what each placeholder becomes; the numbers follow the order of the arguments."""
    tokens: dict[tuple[str, str | None], str] = {}
    number = 0
    for row_set in row_sets:
        places = []
        for column, type_ in row_set.columns:
            number += 1
            places.append(given.value.format(number=number, type=type_))
            tokens[row_set.name, column] = places[-1]
        tokens[row_set.name, None] = _table(row_set, places, given)
    for name, type_ in scalars.items():
        number += 1
        tokens[name, None] = f"${number}::{type_}"
    return tokens


def _table(row_set: RowSet, places: Sequence[str], given: Given) -> str:
    names = [column for column, _ in row_set.columns]
    if given is Given.ONE:
        named = (f"{place} AS {name}" for place, name in zip(places, names, strict=True))
        return f"(SELECT {', '.join(named)}) AS u"
    return f"unnest({', '.join(places)}) AS u ({', '.join(names)})"
