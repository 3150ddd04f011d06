"""A sweeper's passes, run by the test one by one, against a real coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest
from perdure_runtime.clock import SystemClock
from perdure_runtime.election import Leadership
from perdure_runtime.rpc.client import RpcClient, open_channel
from perdure_sweeper.expiry import Expiry
from perdure_testkit.database import Database

WELL_SECONDS = 3600.0
"""Longer than any lease."""


class StandingClock(SystemClock):
    """Stands still until a test moves it, in either direction."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Sweeps:
    """Rows as the test shifts them in time, and passes over them."""

    def __init__(self, rows: asyncpg.Connection, expiry: Expiry, clock: StandingClock) -> None:
        self.rows = rows
        self.expiry = expiry
        self.clock = clock

    async def be_well(self, seconds: float = WELL_SECONDS) -> None:
        """Let holders have been able to renew for so long."""
        await self.expiry.run_once()
        self.clock.now += seconds

    async def expired(self, *runs: UUID, taken_ago: float = 60.0, ago: float = 1.0) -> None:
        """Let leases have been taken and have run out so many seconds ago."""
        await self.rows.execute(
            "UPDATE steps SET started_at = clock_timestamp() - $1 * interval '1 s',"
            " lease_expires_at = clock_timestamp() - $2 * interval '1 s'"
            " WHERE run_id = ANY ($3::uuid[]) AND status = 'running'",
            taken_ago,
            ago,
            list(runs),
        )

    async def statuses(self, run: UUID) -> list[str]:
        """The steps of a run."""
        rows = await self.rows.fetch(
            "SELECT status::text FROM steps WHERE run_id = $1 ORDER BY step", run
        )
        return [row["status"] for row in rows]

    async def step(self, run: UUID) -> asyncpg.Record:
        """The first step of a run."""
        row = await self.rows.fetchrow("SELECT * FROM steps WHERE run_id = $1 AND step = 1", run)
        assert row is not None
        return row

    async def queued_again(self, run: UUID) -> bool:
        """Whether the step waits for dispatch under a new, ready row."""
        found: bool = await self.rows.fetchval(
            "SELECT EXISTS (SELECT FROM outbox WHERE run_id = $1 AND state = 'ready')", run
        )
        return found


@pytest.fixture
def leadership() -> Leadership:
    """Of a sweeper that is active for good."""
    leads = Leadership("sweeper", SystemClock())
    leads.trust_until(float("inf"))
    return leads


@pytest.fixture
async def sweeper_client(coordinator_address: str) -> AsyncIterator[RpcClient]:
    client = RpcClient(open_channel(coordinator_address))
    yield client
    await client.stop()


@pytest.fixture
async def sweeps(database: Database, sweeper_client: RpcClient, leadership: Leadership) -> Sweeps:
    clock = StandingClock()
    pool = await database.open_pool("sweeper")
    return Sweeps(await database.connect(), Expiry(pool, sweeper_client, leadership, clock), clock)
