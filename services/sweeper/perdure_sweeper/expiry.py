"""Leases and runs whose time is over or has come, sent to the coordinator as events (p3)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import asyncpg
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ITEM_STATUS_APPLIED,
    BeginRunsRequest,
    BeginRunsResponse,
    ExpireLeasesRequest,
    ExpireLeasesResponse,
    ExpireRunsRequest,
    ExpireRunsResponse,
    ItemStatus,
    RunRef,
)
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from perdure_contracts.internal.v1.dispatch_pb2 import ExpiredLease as ExpiredLeaseMessage
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_runtime import fail_points
from perdure_runtime.clock import Clock
from perdure_runtime.election import Leadership
from perdure_runtime.loop import Pass
from perdure_runtime.rpc.client import RpcClient
from perdure_store.pool import Connection, acquire
from perdure_store.sweeps import (
    ExpiredLease,
    OldRun,
    StalledRun,
    database_time,
    expired_leases,
    old_runs,
    stalled_runs,
)

EXPIRE_LEASES = fail_points.declare("sweeper.expire_leases")
BEGIN_RUNS = fail_points.declare("sweeper.begin_runs")
EXPIRE_RUNS = fail_points.declare("sweeper.expire_runs")

CALL_SECONDS = 5.0
PAGE = 500
MAX_JUMP_SECONDS = 5.0
"""More than two clocks part in a second, less than a lease."""

Found = TypeVar("Found")

Find = Callable[[Connection, Found | None], Awaitable[list[Found]]]
"""Returns the next page of what ran out, after the last one of the page before."""


class Expiry:
    """Takes away what ran out, while this process leads.

    After a time in which holders could not renew, nothing is taken for one lease length, so that an
    outage charges no losses to innocents. Such was the time before this process began, before a
    pass failed (the database was away, or the coordinator could not have renewed), and before the
    database's clock ran ahead of this machine's: all stood still then, or the clock was set.
    """

    def __init__(
        self, pool: asyncpg.Pool, client: RpcClient, leadership: Leadership, clock: Clock
    ) -> None:
        self._pool = pool
        self._client = client
        self._stub = CoordinatorServiceStub(client.batches)
        self._leadership = leadership
        self._clock = clock
        self._well_since: float | None = None
        self._ahead = math.inf  # database time minus this clock, in seconds, at the last pass

    async def run_once(self) -> Pass:
        """Look at every lease and run whose time is over or has come, page by page."""
        well_since, self._well_since = self._well_since, None
        if not self._leadership.is_leader:
            return Pass()
        now = self._clock.monotonic()
        if await self._clock_jumped(now) or well_since is None:
            well_since = now
        expired = await self._expire_leases(now - well_since)
        old, stalled = await self._expire_runs(), await self._begin_runs()
        self._well_since = well_since
        return Pass({"expired_leases": expired, "old_runs": old, "stalled_runs": stalled})

    async def _clock_jumped(self, now: float) -> bool:
        async with acquire(self._pool) as connection:
            ahead = await database_time(connection) - now
        jumped, self._ahead = ahead - self._ahead > MAX_JUMP_SECONDS, ahead
        return jumped

    async def _expire_leases(self, well_for: float) -> int:
        applied = await self._send_leases([])  # answered only where leases could be renewed
        async for page in self._pages(partial(expired_leases, limit=PAGE, well_for=well_for)):
            applied += await self._send_leases(page)
        return applied

    async def _expire_runs(self) -> int:
        applied = 0
        async for page in self._pages(partial(old_runs, limit=PAGE)):
            applied += await self._send_runs(page)
        return applied

    async def _begin_runs(self) -> int:
        applied = 0
        async for page in self._pages(partial(stalled_runs, limit=PAGE)):
            applied += await self._send_stalled(page)
        return applied

    async def _pages(self, find: Find[Found]) -> AsyncIterator[list[Found]]:
        """Look behind each page, so that what cannot be ended now hides nothing (F057)."""
        page: list[Found] = []
        while True:
            async with acquire(self._pool) as connection:
                page = await find(connection, page[-1] if page else None)
            if page:
                yield page
            if len(page) < PAGE:
                return

    async def _send_leases(self, leases: Sequence[ExpiredLease]) -> int:
        request = ExpireLeasesRequest(leases=map(_lease_message, leases))
        answer: ExpireLeasesResponse = await self._client.call(
            self._stub.ExpireLeases, request, timeout=CALL_SECONDS, fail_point=EXPIRE_LEASES
        )
        return _applied(answer.results)

    async def _send_runs(self, runs: Sequence[OldRun]) -> int:
        request = ExpireRunsRequest(runs=map(_run_message, runs))
        answer: ExpireRunsResponse = await self._client.call(
            self._stub.ExpireRuns, request, timeout=CALL_SECONDS, fail_point=EXPIRE_RUNS
        )
        return _applied(answer.results)

    async def _send_stalled(self, runs: Sequence[StalledRun]) -> int:
        request = BeginRunsRequest(runs=map(_run_message, runs))
        answer: BeginRunsResponse = await self._client.call(
            self._stub.BeginRuns, request, timeout=CALL_SECONDS, fail_point=BEGIN_RUNS
        )
        return _applied(answer.results)


def _applied(results: Iterable[ItemStatus.ValueType]) -> int:
    return sum(status == ITEM_STATUS_APPLIED for status in results)


def _lease_message(expired: ExpiredLease) -> ExpiredLeaseMessage:
    lease = StepLease(
        org=expired.org,
        run_id=str(expired.run_id),
        step=expired.step,
        fence=expired.fence,
        lease_id=str(expired.lease_id),
    )
    return ExpiredLeaseMessage(lease=lease, timed_out=expired.timed_out)


def _run_message(run: OldRun | StalledRun) -> RunRef:
    return RunRef(org=run.org, run_id=str(run.run_id))
