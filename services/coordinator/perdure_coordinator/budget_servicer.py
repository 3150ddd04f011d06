"""The service of budgets."""

from __future__ import annotations

from typing import Any

import asyncpg
import grpc
from perdure_contracts.internal.v1 import budget_service_pb2
from perdure_contracts.internal.v1.budget_service_pb2_grpc import BudgetServiceServicer

from perdure_coordinator.handlers.put_budget import put_budget

Context = grpc.aio.ServicerContext[Any, Any]


class Budgets(BudgetServiceServicer):
    """Budgets, as operators set them."""

    def __init__(self, spare: asyncpg.Pool) -> None:
        self._spare = spare

    async def PutBudget(
        self, request: budget_service_pb2.PutBudgetRequest, context: Context
    ) -> budget_service_pb2.PutBudgetResponse:
        """See `handlers/put_budget.py`."""
        return await put_budget(self._spare, request)
