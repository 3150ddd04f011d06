"""Whole sweepers under their own role: one is active, the next takes over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from perdure_runtime.clock import SystemClock
from perdure_runtime.lifecycle import Service
from perdure_runtime.ops import OpsServer
from perdure_runtime.process import Process
from perdure_sweeper.app import build
from perdure_sweeper.config import SweeperConfig
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually

Serve = Callable[..., Awaitable[Service]]

HOLDER = "SELECT holder FROM leaders WHERE duty = 'sweeper'"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def serve_sweeper(database: Database, coordinator_address: str) -> AsyncIterator[Serve]:
    started: list[Service] = []

    async def serve(**settings: Any) -> Service:
        config = SweeperConfig(
            database_url=database.url("sweeper"),
            coordinator_address=coordinator_address,
            interval=0.05,
            audit_interval=0.1,
            lease=0.6,
            **settings,
        )
        service = await build(config, Process(OpsServer("127.0.0.1", 0), SystemClock()))
        started.append(service)
        await service.start()
        return service

    yield serve
    for service in started:
        await service.stop()


async def test_one_sweeper_is_active_and_the_next_takes_over_at_once(
    rows: asyncpg.Connection, calls: Calls, serve_sweeper: Serve
) -> None:
    # Leases so short that a sweeper that just began takes them away soon.
    await rows.execute("UPDATE lanes SET hand_out_ms = 200, lease_ms = 200")
    first = await serve_sweeper()
    leader = await eventually(lambda: rows.fetchval(HOLDER), what="a leader")
    await serve_sweeper()
    run = await calls.start()
    lost = (await calls.grant(run)).lease.fence

    async def taken_away() -> bool:
        return bool(
            await rows.fetchval(
                "SELECT fence = $2 AND status = 'queued' FROM steps WHERE run_id = $1", run, lost
            )
        )

    await eventually(taken_away, what="the first loss")
    assert await rows.fetchval(HOLDER) == leader

    await first.stop()

    lost = (await calls.grant(run)).lease.fence
    await eventually(taken_away, what="the second loss")
    assert await rows.fetchval(HOLDER) != leader
    assert lost == 2


async def test_a_sweeper_makes_months_when_it_begins(
    rows: asyncpg.Connection, serve_sweeper: Serve
) -> None:
    (last,) = await rows.fetch("SELECT max(month) AS month FROM months")
    for parent in ("runs", "run_tags", "steps", "attempts", "effects", "history"):
        await rows.execute(f"DROP TABLE {parent}_{last['month']:%Y%m}")
    await rows.execute("DELETE FROM months WHERE month = $1", last["month"])

    await serve_sweeper()

    await eventually(
        lambda: rows.fetchval("SELECT EXISTS (SELECT FROM months WHERE month = $1)", last["month"]),
        what="the month",
    )
