"""What work may cost: what was set aside for tries, and what is left of budgets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

BUDGET = "budget:"
"""How the causes begin that steps are parked on because of a budget; its name follows."""


class Period(StrEnum):
    """For how long the amount of a budget is, in UTC."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


@dataclass(frozen=True, slots=True)
class CostState:
    """What a step costs, in millionths: `estimate` of a try; `reserved` for the one that runs.

    `spent` is what its tries came to.
    """

    step: int
    estimate: int
    reserved: int = 0
    spent: int = 0


@dataclass(frozen=True, slots=True)
class Spending:
    """What a whole run has spent and has set aside, in millionths."""

    spent: int = 0
    reserved: int = 0

    @property
    def total(self) -> int:
        """What no further try can have."""
        return self.spent + self.reserved


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget that holds for a run, locked: `left` millionths are neither spent nor set aside."""

    name: str
    left: int

    @property
    def cause(self) -> str:
        """What steps are parked on while the budget is exhausted."""
        return BUDGET + self.name
