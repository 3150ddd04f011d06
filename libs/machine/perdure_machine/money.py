"""Amounts of money: whole millionths of a unit, so that no sum is ever off."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

MICROS = 1_000_000
"""Millionths in a unit."""

MAX_MICROS = 10**15
"""Greatest amount, a thousand million units."""


def micros(text: str) -> int:
    """Read an amount of units, such as 2.50, as millionths. Raises ValueError."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:80]!r} is no amount") from None
    if not amount.is_finite() or amount < 0 or amount * MICROS > MAX_MICROS:
        raise ValueError(f"{text[:80]!r} is no amount from 0 to {MAX_MICROS // MICROS}")
    return int((amount * MICROS).to_integral_value(ROUND_HALF_UP))


def amount(value: object) -> int:
    """Read an amount of units, a JSON number or a decimal text. Raises ValueError."""
    is_number = isinstance(value, int | float | str) and not isinstance(value, bool)
    return micros(str(value) if is_number else "")


def units(amount: int) -> str:
    """Write millionths as units, with two places or as many as it needs."""
    text = f"{Decimal(amount) / MICROS:.6f}".rstrip("0")
    whole, _, places = text.partition(".")
    return f"{whole}.{places:0<2}"
