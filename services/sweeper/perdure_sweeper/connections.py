"""Steps that are blocked or parked although nothing hinders them, and places that nobody holds.

Tokens come and breakers open half with time, which nobody tells; the rest a crash left behind.
"""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.connections_pb2 import (
    SweepConnectionsRequest,
    SweepConnectionsResponse,
)
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from perdure_runtime import fail_points
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.metrics import gauge
from perdure_runtime.rpc.client import RpcClient
from perdure_store.connections import Measures, measure, needs_mending, needs_unblocking
from perdure_store.pool import acquire

SWEEP_CONNECTIONS = fail_points.declare("sweeper.sweep_connections")

CALL_SECONDS = 5.0

SLOTS = gauge("connection_slots_in_use", "Places at connections that steps hold.")
BLOCKED = gauge("outbox_blocked_rows", "Queued steps whose connection has no room for them.")
BREAKERS = gauge("connections", "Connections by how they are.", ("health",))


class Connections:
    """Looks for them while this process leads, and has the coordinator look again."""

    def __init__(self, pool: asyncpg.Pool, client: RpcClient, leadership: Leadership) -> None:
        self._pool = pool
        self._client = client
        self._stub = CoordinatorServiceStub(client.batches)
        self._leadership = leadership

    async def unblock(self) -> Pass:
        """Let blocked steps go."""
        if not self._leadership.is_leader:
            return Pass()
        async with acquire(self._pool) as connection:
            if not await needs_unblocking(connection):
                return Pass()
        answer = await self._sweep(mend=False)
        return Pass({"unblocked_steps": answer.unblocked})

    async def mend(self) -> Pass:
        """Give back places, bring back steps, and publish how connections are."""
        if not self._leadership.is_leader:
            _publish(Measures())
            return Pass()
        async with acquire(self._pool) as connection:
            _publish(await measure(connection))
            if not await needs_mending(connection):
                return Pass()
        answer = await self._sweep(mend=True)
        return Pass({"freed_places": answer.freed, "resumed_causes": answer.resumed})

    async def _sweep(self, *, mend: bool) -> SweepConnectionsResponse:
        answer: SweepConnectionsResponse = await self._client.call(
            self._stub.SweepConnections,
            SweepConnectionsRequest(mend=mend),
            timeout=CALL_SECONDS,
            fail_point=SWEEP_CONNECTIONS,
        )
        return answer


def _publish(measures: Measures) -> None:
    SLOTS.set(measures.slots_in_use)
    BLOCKED.set(measures.blocked_rows)
    for health in ("open", "half_open", "closed", "unusable"):
        BREAKERS.labels(health).set(getattr(measures, health))
