"""One look at what is due, sent to the coordinator as events (protocol p5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import asyncpg
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ITEM_STATUS_APPLIED,
    FireTimersRequest,
    FireTimersResponse,
    TimerRef,
)
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from perdure_runtime import fail_points
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.metrics import gauge, histogram
from perdure_runtime.rpc.client import RpcClient
from perdure_store.pool import Connection, acquire
from perdure_store.timers import NearTimer, soonest_timers, timers_in_turn

from perdure_timer.cursor import (
    FIRST,
    ORGS_A_PASS,
    TIMERS_A_PASS,
    next_cursor,
    soonest,
)

FIRE_TIMERS = fail_points.declare("timer.fire_timers")

CALL_SECONDS = 5.0

LATENESS = histogram("timer_lateness_seconds", "From due to picked for delivery.", ("internal",))
OVERDUE = gauge(
    "timer_overdue_seconds",
    "Lateness of the latest timer of the last pass; 0 without any.",
    ("internal",),
)


class Delivery:
    """Delivers due timers of one kind, ordinary or internal, while this process leads.

    Each pass selects anew what is due: no high-water mark, nothing kept in memory but the cursor.
    `wake_in` is asked to make the next pass come when the soonest timer is due.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        client: RpcClient,
        leadership: Leadership,
        *,
        internal: bool,
        horizon: float,
        wake_in: Callable[[float], None],
    ) -> None:
        self._pool = pool
        self._client = client
        self._stub = CoordinatorServiceStub(client.batches)
        self._leadership = leadership
        self._internal = internal
        self._horizon = horizon
        self._wake_in = wake_in
        self._cursor = FIRST

    async def run_once(self) -> Pass:
        """Deliver what is due now; if that is more than a pass takes, orgs have their turns."""
        if not self._leadership.is_leader:
            self._cursor = FIRST
            self._observe([])
            return Pass()
        async with acquire(self._pool) as connection:
            picked, is_full = await self._pick(connection)
        due = [timer for timer in picked if timer.remaining <= 0]
        self._observe(due)
        applied = await self._send(due) if due else 0
        pause = soonest(picked)
        if pause is not None:
            self._wake_in(pause)
        return Pass({"due": len(due), "applied": applied}, more=is_full and applied > 0)

    async def _pick(self, connection: Connection) -> tuple[list[NearTimer], bool]:
        """Return what is near, and whether that is only a part of it."""
        first = await soonest_timers(
            connection, internal=self._internal, horizon=self._horizon, limit=TIMERS_A_PASS + 1
        )
        if len(first) <= TIMERS_A_PASS:
            self._cursor = FIRST
            return first, False
        picked = await timers_in_turn(
            connection,
            internal=self._internal,
            horizon=self._horizon,
            after_org=self._cursor,
            orgs=ORGS_A_PASS,
            places=TIMERS_A_PASS,
        )
        self._cursor = next_cursor(picked)
        return picked, True

    def _observe(self, due: Sequence[NearTimer]) -> None:
        kind = str(self._internal).lower()
        for timer in due:
            LATENESS.labels(kind).observe(timer.late)
        OVERDUE.labels(kind).set(max((timer.late for timer in due), default=0.0))

    async def _send(self, due: Sequence[NearTimer]) -> int:
        request = FireTimersRequest(timers=map(_reference, due), internal=self._internal)
        answer: FireTimersResponse = await self._client.call(
            self._stub.FireTimers, request, timeout=CALL_SECONDS, fail_point=FIRE_TIMERS
        )
        return sum(result.status == ITEM_STATUS_APPLIED for result in answer.results)


def _reference(timer: NearTimer) -> TimerRef:
    return TimerRef(timer_id=timer.timer_id, run_id=str(timer.run_id), org=timer.org)


def wake_later(wake: Callable[[], None]) -> Callable[[float], None]:
    """Return a function that calls `wake` after some seconds, on the running loop."""
    return lambda seconds: _later(seconds, wake)


def _later(seconds: float, wake: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, wake)
