"""What work may cost: budgets of the org."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_contracts.v1 import budget_service_pb2, budget_service_pb2_grpc

from perdure.client_transport import Transport


class Budgets:
    """A client's calls about budgets. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = budget_service_pb2_grpc.BudgetServiceStub(transport.channel)

    async def put(
        self,
        name: str,
        amount: str,
        *,
        period: str = "total",
        workflow: str = "",
        currency: str = "",
    ) -> budget_service_pb2.Budget:
        """Make a budget or change it: units a `day`, a `month` or in `total`."""
        request = budget_service_pb2.PutBudgetRequest(
            name=name,
            amount=amount,
            period=budget_service_pb2.BudgetPeriod.Value(f"BUDGET_PERIOD_{period.upper()}"),
            workflow=workflow,
            currency=currency,
        )
        return (await self._transport.call(self._stub.PutBudget, request)).budget

    async def get(self, name: str) -> budget_service_pb2.Budget:
        """Read a budget as it stands."""
        request = budget_service_pb2.GetBudgetRequest(name=name)
        return (await self._transport.call(self._stub.GetBudget, request)).budget

    async def all(self) -> Sequence[budget_service_pb2.Budget]:
        """Read all budgets of the org."""
        request = budget_service_pb2.ListBudgetsRequest()
        return (await self._transport.call(self._stub.ListBudgets, request)).budgets
