"""What tries cost: loaded and written for steps with a cost only; budgets are locked before runs.

A budget's row is locked by whoever sets something aside, in the order of names and before any run
(R14). What a try came to is written on a row of its own under the run's lock; the next who locks
the budget adds it. So two never set the same money aside, and nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from perdure_machine.actions import Action, Charge
from perdure_machine.budgets import BudgetState, CostState, Spending
from perdure_machine.changes import Changes
from perdure_machine.view import RunState

from perdure_store.apply.rowsets import RowSet, Statement
from perdure_store.pool import Connection
from perdure_store.sql import sql

OrgWorkflow = tuple[str, str]
"""An org and the name of a workflow of it."""

_COSTS = Statement(
    sql("budgets.put_costs"), [RowSet.of("costs", "run_id uuid, step integer, estimate bigint")]
)
_CHARGE = Statement(
    sql("budgets.charge"),
    [RowSet.of("charges", "run_id uuid, step integer, fence integer, micros bigint")],
)
_CHARGE_BUDGETS = Statement(
    sql("budgets.charge_budgets"),
    [
        RowSet.of(
            "budget_charges",
            "org text, name text, run_id uuid, step integer, fence integer, micros bigint",
        )
    ],
)
_SETTLE = Statement(
    sql("budgets.settle"),
    [
        RowSet.of(
            "settled", "run_id uuid, step integer, fence integer, reserved bigint, paid bigint"
        )
    ],
)


class BudgetsNotLocked(Exception):
    """A decision sets money aside, and the budgets of its workflow are to be locked first."""

    def __init__(self, whose: OrgWorkflow) -> None:
        super().__init__(f"the budgets of {whose[1]} are to be locked first")
        self.whose = whose


@dataclass(slots=True)
class _Budget:
    org: str
    name: str
    workflow: str
    left: int


class Purse:
    """The budgets that one transaction has locked, and what its decisions leave of them."""

    def __init__(self, whose: Collection[OrgWorkflow]) -> None:
        self._whose = frozenset(whose)
        self._budgets: list[_Budget] = []

    async def lock(self, connection: Connection) -> None:
        """Lock the budgets, then read in later statements what is left of them (R1)."""
        if not self._whose:
            return
        orgs, workflows = zip(*sorted(self._whose), strict=True)
        locked = await connection.fetch(sql("budgets.lock"), orgs, workflows)
        if not locked:
            return
        names = [row["org"] for row in locked], [row["name"] for row in locked]
        await connection.execute(sql("budgets.close"), *names)
        for row in await connection.fetch(sql("budgets.read_left"), *names):
            self._budgets.append(
                _Budget(row["org"], row["name"], row["workflow"], row["left_over"])
            )

    def of(self, run: RunState) -> tuple[BudgetState, ...]:
        """Return the budgets that hold for a run. Raises `BudgetsNotLocked`."""
        if (run.org, run.workflow) not in self._whose:
            raise BudgetsNotLocked((run.org, run.workflow))
        mine = (one for one in self._budgets if one.org == run.org)
        return tuple(
            BudgetState(one.name, one.left) for one in mine if one.workflow in ("", run.workflow)
        )

    def note(self, org: str, actions: Iterable[Action]) -> None:
        """Take what a decision sets aside off what others of this transaction find."""
        for action in actions:
            if isinstance(action, Charge):
                for one in self._budgets:
                    if one.org == org and one.name in action.budgets:
                        one.left -= action.micros


async def load_costs(
    connection: Connection, run_id: UUID, steps: Collection[int]
) -> tuple[Mapping[int, CostState], Spending | None]:
    """Return what steps of a locked run cost, and what the run has spent."""
    if not steps:
        return {}, None
    rows = await connection.fetch(sql("budgets.load_costs"), run_id, sorted(steps))
    found = {row["step"]: CostState(**row) for row in rows}
    spending = await connection.fetchrow(sql("budgets.load_spending"), run_id)
    costs = {step: found.get(step, CostState(step, 0)) for step in steps}
    return costs, Spending() if spending is None else Spending(**spending)


async def write_spending(connection: Connection, changes: Sequence[Changes]) -> None:
    """Write what steps may cost, what was set aside and what tries came to."""
    costs = [(c.run.run.run_id, one.step, one.estimate) for c in changes for one in c.costs]
    if costs:
        await connection.execute(_COSTS.text, *_COSTS.arguments({"costs": costs}))
    charges = [(c.run.run, one) for c in changes for one in c.charges]
    if charges:
        rows = [(run.run_id, one.step, one.fence, one.micros) for run, one in charges]
        await connection.execute(_CHARGE.text, *_CHARGE.arguments({"charges": rows}))
        await _charge_budgets(connection, charges)
    settled = [
        (c.run.run.run_id, one.step, one.fence, one.reserved, one.paid)
        for c in changes
        for one in c.settled
    ]
    if settled:
        await connection.execute(_SETTLE.text, *_SETTLE.arguments({"settled": settled}))


async def _charge_budgets(
    connection: Connection, charges: Sequence[tuple[RunState, Charge]]
) -> None:
    rows = [
        (run.org, name, run.run_id, one.step, one.fence, one.micros)
        for run, one in charges
        for name in one.budgets
    ]
    if rows:
        arguments = _CHARGE_BUDGETS.arguments({"budget_charges": rows})
        await connection.execute(_CHARGE_BUDGETS.text, *arguments)


async def await_periods(connection: Connection, changes: Sequence[Changes]) -> None:
    """Have steps that were parked on a budget come back when its next period begins."""
    prefix = "budget:"
    parked = {
        (c.run.run.org, step.put.step.parked.cause.removeprefix(prefix))
        for c in changes
        for step in c.steps
        if step.put.step.parked is not None and step.put.step.parked.cause.startswith(prefix)
    }
    for org, name in sorted(parked):
        await connection.execute(sql("budgets.await_period"), org, name)
