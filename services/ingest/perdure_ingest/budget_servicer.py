"""`perdure.v1.BudgetService`; each method names its caller and delegates to its handler."""

from __future__ import annotations

from perdure_contracts.v1 import budget_service_pb2, budget_service_pb2_grpc
from perdure_runtime.gate.identity import Context, Identify

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.budgets import get_budget, list_budgets, put_budget


class BudgetServicer(budget_service_pb2_grpc.BudgetServiceServicer):
    """What work may cost."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def PutBudget(
        self, request: budget_service_pb2.PutBudgetRequest, context: Context
    ) -> budget_service_pb2.PutBudgetResponse:
        """Delegate."""
        return await put_budget(self._doors, self._identify(context), request)

    async def GetBudget(
        self, request: budget_service_pb2.GetBudgetRequest, context: Context
    ) -> budget_service_pb2.GetBudgetResponse:
        """Delegate."""
        return await get_budget(self._doors, self._identify(context), request)

    async def ListBudgets(
        self, request: budget_service_pb2.ListBudgetsRequest, context: Context
    ) -> budget_service_pb2.ListBudgetsResponse:
        """Delegate."""
        return await list_budgets(self._doors, self._identify(context), request)
