"""What a try came to, as its handler tells it."""

from __future__ import annotations

import threading
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

_MICROS = 1_000_000


class Costs:
    """Adds up what one try has spent; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total: Decimal | None = None

    def add(self, amount: float | str | Decimal) -> None:
        """Add units of money. Raises ValueError for what is no amount."""
        try:
            more = Decimal(str(amount))
        except InvalidOperation:
            raise ValueError(f"{amount!r} is no amount") from None
        if not more.is_finite() or more < 0:
            raise ValueError(f"{amount!r} is no amount")
        with self._lock:
            self._total = (self._total or Decimal(0)) + more

    @property
    def micros(self) -> int | None:
        """What was added so far in millionths of a unit, None if nothing was."""
        with self._lock:
            total = self._total
        return None if total is None else int((total * _MICROS).to_integral_value(ROUND_HALF_UP))
