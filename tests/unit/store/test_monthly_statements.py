"""Statements on the runs of one month name its tables, and take one row otherwise than many."""

from uuid import UUID

import pytest
from perdure_store.apply.monthly import MonthlyStatement
from perdure_store.apply.rowsets import RowSet

NOVEMBER_MS, DECEMBER_MS = 1_795_000_000_000, 1_797_000_000_000
LAST_OF_NOVEMBER_MS = 1_796_083_199_999

WRITE = MonthlyStatement(
    "UPDATE runs_:month SET x = u.x FROM :moved WHERE y < :age",
    RowSet.of("moved", "run_id uuid, x bigint"),
    {"age": "float8"},
)


def run_at(milliseconds: int, number: int = 0) -> UUID:
    return UUID(int=milliseconds << 80 | number)


def test_a_row_that_is_alone_is_given_as_its_values() -> None:
    run = run_at(NOVEMBER_MS)
    assert list(WRITE.queries([(run, 5)], age=2.5)) == [
        (
            "UPDATE runs_202611 SET x = u.x FROM (SELECT $1::uuid AS run_id, $2::bigint AS x) AS u"
            " WHERE y < $3::float8",
            [run, 5, 2.5],
        )
    ]


def test_several_rows_are_given_as_arrays_whose_lengths_the_planner_does_not_see() -> None:
    first, second = run_at(NOVEMBER_MS, 1), run_at(NOVEMBER_MS, 2)
    assert list(WRITE.queries([(first, 5), (second, 6)], age=2.5)) == [
        (
            "UPDATE runs_202611 SET x = u.x"
            " FROM unnest((SELECT $1::uuid[]), (SELECT $2::bigint[])) AS u (run_id, x)"
            " WHERE y < $3::float8",
            [(first, second), (5, 6), 2.5],
        )
    ]


def test_a_run_stands_in_the_tables_of_the_month_in_its_id() -> None:
    rows = [(run_at(LAST_OF_NOVEMBER_MS), 1), (run_at(LAST_OF_NOVEMBER_MS + 1), 2)]
    texts = [text.split()[1] for text, _ in WRITE.queries([*rows, (run_at(DECEMBER_MS), 3)], age=1)]
    assert texts == ["runs_202611", "runs_202612"]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_row_of_another_width_is_refused(rows: int) -> None:
    with pytest.raises(ValueError, match="a row of moved has 3 values"):
        list(WRITE.queries([(run_at(NOVEMBER_MS), 5, 6)] * rows, age=1))
