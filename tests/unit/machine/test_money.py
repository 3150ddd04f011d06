"""Amounts of money are whole millionths, and read as they were written."""

from __future__ import annotations

import pytest
from perdure_machine.money import MAX_MICROS, micros, units


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("2.5", 2_500_000),
        ("0.1", 100_000),
        ("1e-6", 1),
        ("0.0000005", 1),
        ("3", 3_000_000),
    ],
)
def test_an_amount_is_read_as_whole_millionths(text: str, amount: int) -> None:
    assert micros(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "NaN", "Infinity", "much", "1e10", "1,5"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        micros(text)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0.00"), (2_500_000, "2.50"), (1, "0.000001"), (MAX_MICROS, "1000000000.00")],
)
def test_an_amount_is_written_with_the_places_that_it_needs(amount: int, text: str) -> None:
    assert units(amount) == text
    assert micros(text) == amount
