"""PutBudget: what may be spent, set by an operator."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.budget_service_pb2 import PutBudgetRequest, PutBudgetResponse
from perdure_machine.budgets import Period
from perdure_store.budgets import BudgetAsked
from perdure_store.budgets import put_budget as put
from perdure_store.pool import acquire


async def put_budget(spare: asyncpg.Pool, request: PutBudgetRequest) -> PutBudgetResponse:
    """Make the budget or change it."""
    asked = BudgetAsked(
        org=request.org,
        name=request.name,
        workflow=request.workflow,
        micros=request.amount_micros,
        period=Period(request.period),
        currency=request.currency,
        asked_by=request.asked_by,
    )
    async with acquire(spare) as connection:
        await put(connection, asked)
    return PutBudgetResponse()
