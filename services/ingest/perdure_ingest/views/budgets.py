"""Budgets, as messages."""

from __future__ import annotations

from types import MappingProxyType

from perdure_contracts.v1 import budget_service_pb2
from perdure_machine.budgets import Period
from perdure_machine.money import units
from perdure_store.budgets import Budget

from perdure_ingest.views.instants import timestamp

_PERIODS = MappingProxyType(
    {
        Period.DAY: budget_service_pb2.BUDGET_PERIOD_DAY,
        Period.MONTH: budget_service_pb2.BUDGET_PERIOD_MONTH,
        Period.TOTAL: budget_service_pb2.BUDGET_PERIOD_TOTAL,
    }
)


def budget_message(budget: Budget) -> budget_service_pb2.Budget:
    """Show a budget as it stands."""
    return budget_service_pb2.Budget(
        name=budget.name,
        workflow=budget.workflow,
        amount=units(budget.micros),
        period=_PERIODS[Period(budget.period)],
        currency=budget.currency,
        spent=units(budget.spent),
        reserved=units(budget.reserved),
        parked_steps=budget.parked,
        since=timestamp(budget.since),
        until=timestamp(budget.until),
    )
