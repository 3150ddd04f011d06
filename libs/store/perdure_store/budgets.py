"""Budgets: set by operators, read with what is spent, and their next periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from perdure_machine.budgets import BUDGET, Period
from perdure_machine.money import units
from perdure_runtime import fail_points

from perdure_store.audit import audit
from perdure_store.causes import raise_cause
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_BUDGET = fail_points.declare("store.commit_budget")


@dataclass(frozen=True, slots=True)
class BudgetAsked:
    """A budget as an operator sets it: `micros` millionths a period, for one workflow or for all.

    An empty `workflow` is all of the org.
    """

    org: str
    name: str
    workflow: str
    micros: int
    period: Period
    currency: str
    asked_by: str


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget with what is spent and set aside in the period from `since` to `until`."""

    name: str
    workflow: str
    micros: int
    period: str
    currency: str
    changed_at: datetime
    since: datetime | None
    until: datetime | None
    spent: int
    reserved: int
    parked: int


async def put_budget(connection: Connection, asked: BudgetAsked) -> None:
    """Make a budget or change it; what was parked on it comes back and is looked at anew.

    Locks the budget, then its cause, and no run (R14, p8).
    """
    async with transaction(connection, COMMIT_BUDGET):
        await connection.execute(
            sql("budgets.put"),
            asked.org,
            asked.name,
            asked.workflow,
            asked.micros,
            asked.period,
            asked.currency,
        )
        await raise_cause(connection, asked.org, BUDGET + asked.name)
        await audit(
            connection,
            org=asked.org,
            actor=asked.asked_by,
            action="budget.put",
            target=asked.name,
            details={
                "amount": units(asked.micros),
                "period": asked.period,
                "currency": asked.currency,
                "workflow": asked.workflow,
            },
        )


async def go_on(connection: Connection, org: str, budget_id: UUID, timer_id: int) -> bool:
    """Bring back what is parked on a budget if `timer_id` says that its next period begins.

    Returns False where the org has no such budget: the timer is somebody else's.
    """
    name = await connection.fetchval(sql("budgets.of_period"), budget_id, org)
    if name is None:
        return False
    async with transaction(connection, COMMIT_BUDGET):
        if await connection.fetchval(sql("budgets.take_period"), timer_id, budget_id):
            await raise_cause(connection, org, BUDGET + name)
    return True


async def list_budgets(connection: Connection, org: str, name: str = "") -> Sequence[Budget]:
    """Return the budgets of an org as they stand, or the one of a name."""
    rows = await connection.fetch(sql("budgets.list"), org, name)
    return [Budget(**row) for row in rows]
