"""BudgetService: what work may cost."""

from __future__ import annotations

import re
from types import MappingProxyType

from perdure_contracts.internal.v1 import budget_service_pb2 as internal
from perdure_contracts.v1 import budget_service_pb2 as public
from perdure_machine.budgets import Period
from perdure_machine.money import micros
from perdure_runtime.errors import NotFound, Reason
from perdure_runtime.gate.identity import Caller
from perdure_store import budgets
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check
from perdure_ingest.views.budgets import budget_message

MAX_CURRENCY = 20
"""Characters of a unit's name."""

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_PERIODS = MappingProxyType(
    {
        public.BUDGET_PERIOD_UNSPECIFIED: Period.TOTAL,
        public.BUDGET_PERIOD_DAY: Period.DAY,
        public.BUDGET_PERIOD_MONTH: Period.MONTH,
        public.BUDGET_PERIOD_TOTAL: Period.TOTAL,
    }
)


async def put_budget(
    doors: Doors, caller: Caller, request: public.PutBudgetRequest
) -> public.PutBudgetResponse:
    """Make a budget or change it, and tell how it stands."""
    fields = Check()
    if request.period not in _PERIODS:
        fields.add("period", "is none that this version knows")
    asked = internal.PutBudgetRequest(
        org=caller.org,
        name=_name(fields, request.name),
        workflow=fields.text("workflow", request.workflow, longest=limits.MAX_NAME),
        amount_micros=_amount(fields, request.amount),
        period=_PERIODS.get(request.period, Period.TOTAL),
        currency=fields.text("currency", request.currency, longest=MAX_CURRENCY),
        asked_by=caller.actor,
    )
    fields.refuse()
    await doors.coordinator.budgets.put_budget(asked)
    return public.PutBudgetResponse(budget=await _read(doors, caller, asked.name))


async def get_budget(
    doors: Doors, caller: Caller, request: public.GetBudgetRequest
) -> public.GetBudgetResponse:
    """Read a budget as it stands."""
    fields = Check()
    name = _name(fields, request.name)
    fields.refuse()
    return public.GetBudgetResponse(budget=await _read(doors, caller, name))


async def list_budgets(
    doors: Doors, caller: Caller, request: public.ListBudgetsRequest
) -> public.ListBudgetsResponse:
    """Read all budgets; an operator makes few."""
    async with reading(doors.pool, caller.org) as connection:
        found = await budgets.list_budgets(connection, caller.org)
    return public.ListBudgetsResponse(budgets=map(budget_message, found))


async def _read(doors: Doors, caller: Caller, name: str) -> public.Budget:
    async with reading(doors.pool, caller.org) as connection:
        found = await budgets.list_budgets(connection, caller.org, name)
    if not found:
        raise NotFound(
            f"there is no budget `{name}`",
            reason=Reason.BUDGET_NOT_FOUND,
            metadata={"name": name},
        )
    return budget_message(found[0])


def _name(fields: Check, given: str) -> str:
    if not _NAME.fullmatch(given):
        fields.add("name", "must be a letter, then letters, digits, _ . or -")
    return given


def _amount(fields: Check, given: str) -> int:
    try:
        return micros(given)
    except ValueError as problem:
        fields.add("amount", str(problem))
        return 0
