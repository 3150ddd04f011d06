"""A timer's passes, run by the test one by one, against a real coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from perdure_runtime.clock import SystemClock
from perdure_runtime.election import Leadership
from perdure_runtime.rpc.client import RpcClient, open_channel
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_timer.delivery import Delivery

WAIT = "name: waits\nnodes: {a: {wait: 1h}}"


class Timers:
    """The timers of runs that wait, as the test shifts them in time."""

    def __init__(self, rows: asyncpg.Connection, calls: Calls) -> None:
        self.rows = rows
        self.calls = calls

    async def waiting(self, count: int = 1, *, org: str = "default") -> list[UUID]:
        """Runs of an org that wait for an hour."""
        results = await self.calls.start_all(
            [self.calls.item("waits", org=org) for _ in range(count)]
        )
        return [UUID(result.run_id) for result in results]

    async def org(self, name: str) -> None:
        """An org with the workflow."""
        await self.rows.execute("INSERT INTO orgs (org) VALUES ($1)", name)
        await Calls(self.calls.channel, org=name).publish(WAIT)

    async def due(self, *runs: UUID, ago: float = 1.0) -> None:
        """Let the timers of runs, or of all, be due since so many seconds; negative: ahead."""
        await self.rows.execute(
            "UPDATE timers SET due_at = clock_timestamp() - $1 * interval '1 s',"
            " next_try = clock_timestamp() - $1 * interval '1 s'"
            " WHERE run_id = ANY ($2::uuid[]) OR $2 = '{}'",
            ago,
            list(runs),
        )

    async def backlog(self, run: UUID, count: int, *, ago: float = 86_400.0) -> None:
        """Let so many more timers of a run be due; delivered, they find nobody who waits."""
        await self.rows.execute(
            "INSERT INTO timers (org, run_id, step, kind, due_at, next_try)"
            " SELECT org, run_id, 1 + number, 'wait', clock_timestamp() - $2 * interval '1 s',"
            " clock_timestamp() - $2 * interval '1 s'"
            " FROM runs, generate_series(1, $3::integer) AS number WHERE run_id = $1",
            run,
            ago,
            count,
        )

    async def break_run(self, *runs: UUID) -> None:
        """Make every event of runs fail: their workflow cannot be read."""
        await self.rows.execute(
            "UPDATE runs SET workflow_id = 0 WHERE run_id = ANY ($1::uuid[])", list(runs)
        )

    async def now(self) -> datetime:
        """The database's time."""
        instant: datetime = await self.rows.fetchval("SELECT clock_timestamp()")
        return instant

    async def left(self, *, org: str | None = None) -> int:
        """Timers that are not delivered yet."""
        count: int = await self.rows.fetchval(
            "SELECT count(*) FROM timers WHERE org = $1 OR $1 IS NULL", org
        )
        return count

    async def retry_now(self) -> None:
        """Let what was put off be tried now."""
        await self.rows.execute("UPDATE timers SET next_try = clock_timestamp() WHERE tries > 0")


@pytest.fixture
async def timers(database: Database, calls: Calls) -> Timers:
    await calls.publish(WAIT)
    return Timers(await database.connect(), calls)


@pytest.fixture
def leadership() -> Leadership:
    """Of a timer that is active for good."""
    leads = Leadership("timer", SystemClock())
    leads.trust_until(float("inf"))
    return leads


@pytest.fixture
async def delivery(
    database: Database, coordinator_address: str, leadership: Leadership
) -> AsyncIterator[Callable[..., Awaitable[Delivery]]]:
    """Makes what delivers ordinary timers or internal events, under the timer's own role."""
    client = RpcClient(open_channel(coordinator_address))
    pool = await database.open_pool("timer")

    async def make(
        *,
        internal: bool = False,
        horizon: float = 0.05,
        wake_in: Callable[[float], Any] = lambda _: None,
    ) -> Delivery:
        return Delivery(
            pool, client, leadership, internal=internal, horizon=horizon, wake_in=wake_in
        )

    yield make
    await client.stop()
