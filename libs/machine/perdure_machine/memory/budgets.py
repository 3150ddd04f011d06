"""The budgets of the engine in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from perdure_machine.budgets import BudgetState, CostState, Period, Spending
from perdure_machine.changes import Changes
from perdure_machine.memory.rows import RunRow
from perdure_machine.replacing import replace
from perdure_machine.view import RunState

Try = tuple[UUID, int, int]
"""A run, a step of it and a fence."""


@dataclass(slots=True)
class _Charge:
    micros: int
    at: float
    settled: bool = False


@dataclass(slots=True)
class _Budget:
    workflow: str
    micros: int
    period: Period
    charges: dict[Try, _Charge] = field(default_factory=dict)

    def left(self, now: float) -> int:
        """Return what is neither spent in the period nor set aside."""
        since = period_bounds(self.period, now)[0]
        taken = (one for one in self.charges.values() if not one.settled or one.at >= since)
        return self.micros - sum(one.micros for one in taken)


class Budgets:
    """What may be spent, by org and name."""

    def __init__(self) -> None:
        self._budgets: dict[tuple[str, str], _Budget] = {}

    def put(self, org: str, name: str, micros: int, period: Period, workflow: str = "") -> None:
        """Make a budget or change its amount; what was spent stays."""
        known = self._budgets.get((org, name))
        charges = known.charges if known is not None else {}
        self._budgets[org, name] = _Budget(workflow, micros, period, charges)

    def of(self, run: RunState, now: float) -> tuple[BudgetState, ...]:
        """Return what is left of the budgets that hold for a run."""
        return tuple(
            BudgetState(name, budget.left(now))
            for (org, name), budget in sorted(self._budgets.items())
            if org == run.org and budget.workflow in ("", run.workflow)
        )

    def left(self, org: str, name: str, now: float) -> int:
        """Return what is left of a budget."""
        return self._budgets[org, name].left(now)

    def begun(self, before: float, now: float) -> list[tuple[str, str]]:
        """Return the budgets, by org and name, whose next period began between two instants."""
        untils = ((key, period_bounds(one.period, before)[1]) for key, one in self._budgets.items())
        return [key for key, until in untils if until is not None and until <= now]

    def write(self, row: RunRow, changes: Changes, now: float) -> None:
        """Write what was set aside and settled."""
        run = row.state
        for put in changes.costs:
            known = row.costs.get(put.step, CostState(put.step, 0))
            row.costs[put.step] = replace(known, estimate=put.estimate)
        for charge in changes.charges:
            row.costs[charge.step] = replace(row.costs[charge.step], reserved=charge.micros)
            row.spending = replace(row.spending, reserved=row.spending.reserved + charge.micros)
            for name in charge.budgets:
                try_ = (run.run_id, charge.step, charge.fence)
                self._budgets[run.org, name].charges[try_] = _Charge(charge.micros, now)
        for settled in changes.settled:
            cost = row.costs[settled.step]
            row.costs[settled.step] = replace(cost, reserved=0, spent=cost.spent + settled.paid)
            spending = row.spending
            row.spending = Spending(
                spending.spent + settled.paid, spending.reserved - settled.reserved
            )
            self._settle((run.run_id, settled.step, settled.fence), settled.paid)

    def _settle(self, try_: Try, paid: int) -> None:
        for budget in self._budgets.values():
            charge = budget.charges.get(try_)
            if charge is not None:
                charge.micros, charge.settled = paid, True


def period_bounds(period: Period, now: float) -> tuple[float, float | None]:
    """Return when the period that holds now began, and when the next one does, if any."""
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match period:
        case Period.TOTAL:
            return float("-inf"), None
        case Period.DAY:
            return day.timestamp(), (day + timedelta(days=1)).timestamp()
        case Period.MONTH:
            first = day.replace(day=1)
            return first.timestamp(), (first + timedelta(days=32)).replace(day=1).timestamp()
