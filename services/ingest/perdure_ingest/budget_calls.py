"""What ingest asks the coordinator about budgets."""

from __future__ import annotations

from perdure_contracts.internal.v1 import budget_service_pb2, budget_service_pb2_grpc
from perdure_runtime.fail_points import declare
from perdure_runtime.rpc.client import RpcClient

PUT_BUDGET = declare("ingest.put_budget")

CALL_TIMEOUT = 15.0
"""Longest time that one internal call may take with its repeats, seconds."""


class BudgetCalls:
    """The coordinator's BudgetService behind plain methods."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._stub = budget_service_pb2_grpc.BudgetServiceStub(client.channel)

    async def put_budget(self, request: budget_service_pb2.PutBudgetRequest) -> None:
        """Make a budget or change it; a repeat changes nothing."""
        await self._client.call(
            self._stub.PutBudget, request, timeout=CALL_TIMEOUT, fail_point=PUT_BUDGET
        )
