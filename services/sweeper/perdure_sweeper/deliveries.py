"""Signals that runs await and were never told of, sent as events (protocol p6)."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ITEM_STATUS_APPLIED,
    DeliverSignalsRequest,
    DeliverSignalsResponse,
    UndeliveredSignals,
)
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from perdure_runtime import fail_points
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.rpc.client import RpcClient
from perdure_store.pool import acquire
from perdure_store.signals import Undelivered, undelivered

DELIVER_SIGNALS = fail_points.declare("sweeper.deliver_signals")

CALL_SECONDS = 5.0
PAGE = 500

GRACE_SECONDS = 1.0
"""What is younger is about to be delivered by who stored it."""


class Deliveries:
    """Looks for such signals, while this process leads: a coordinator died between two steps."""

    def __init__(self, pool: asyncpg.Pool, client: RpcClient, leadership: Leadership) -> None:
        self._pool = pool
        self._client = client
        self._stub = CoordinatorServiceStub(client.batches)
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Send all of them, page by page: one that cannot be delivered hides none (F057)."""
        if not self._leadership.is_leader:
            return Pass()
        delivered, last = 0, None
        while True:
            async with acquire(self._pool) as connection:
                page = await undelivered(connection, last, limit=PAGE, older_than=GRACE_SECONDS)
            if page:
                delivered += await self._send(page)
                last = page[-1]
            if len(page) < PAGE:
                return Pass({"delivered_signals": delivered})

    async def _send(self, page: list[Undelivered]) -> int:
        request = DeliverSignalsRequest(
            items=[
                UndeliveredSignals(org=one.org, run_id=str(one.run_id), name=one.name)
                for one in page
            ]
        )
        answer: DeliverSignalsResponse = await self._client.call(
            self._stub.DeliverSignals,
            request,
            timeout=CALL_SECONDS,
            fail_point=DELIVER_SIGNALS,
        )
        return sum(status == ITEM_STATUS_APPLIED for status in answer.results)
