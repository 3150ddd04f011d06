"""Whole timers: one is active, the next takes over; a notification wakes it (P7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from perdure_runtime.clock import SystemClock
from perdure_runtime.lifecycle import Service
from perdure_runtime.ops import OpsServer
from perdure_runtime.process import Process
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually
from perdure_timer.app import build
from perdure_timer.config import TimerConfig

Serve = Callable[..., Awaitable[Service]]

HOLDER = "SELECT holder FROM leaders WHERE duty = 'timer'"
LISTENING = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'perdure-timer'"
    " AND datname = current_database() AND query LIKE 'LISTEN%'"
)
SLOW = 5.0
"""Seconds between looks: so long that what comes sooner was woken."""


@pytest.fixture
async def serve_timer(database: Database, coordinator_address: str) -> AsyncIterator[Serve]:
    started: list[Service] = []

    async def serve(**settings: Any) -> Service:
        config = TimerConfig(
            database_url=database.url("timer"),
            coordinator_address=coordinator_address,
            lease=0.6,
            **settings,
        )
        process = Process(OpsServer("127.0.0.1", 0), SystemClock())
        service = await build(config, process)
        started.append(service)
        await service.start()
        return service

    yield serve
    for service in started:
        await service.stop()


async def test_one_timer_is_active_and_the_next_takes_over_at_once(
    timers: Any, serve_timer: Serve
) -> None:
    first = await serve_timer()
    leader = await eventually(lambda: timers.rows.fetchval(HOLDER), what="a leader")
    await serve_timer()
    await timers.waiting(3)
    await timers.due()
    await eventually(lambda: _none_left(timers), what="delivery")
    assert await timers.rows.fetchval(HOLDER) == leader

    await first.stop()

    await timers.waiting(3)
    await timers.due()
    await eventually(lambda: _none_left(timers), what="delivery by the second")
    assert await timers.rows.fetchval(HOLDER) != leader
    ended = await timers.rows.fetchval("SELECT count(*) FROM history WHERE kind = 'wait_ended'")
    assert ended == 6


async def test_a_timer_that_vanished_is_replaced_when_its_lease_ran_out(
    timers: Any, serve_timer: Serve
) -> None:
    await timers.rows.execute(
        "INSERT INTO leaders VALUES ('timer', 'gone', clock_timestamp() + interval '0.3 s')"
    )
    await serve_timer()
    await timers.waiting()
    await timers.due()

    await eventually(lambda: _none_left(timers), what="delivery")

    assert await timers.rows.fetchval(HOLDER) != "gone"


async def test_p7_internal_events_and_near_timers_wake_the_timer(
    timers: Any, calls: Calls, serve_timer: Serve
) -> None:
    await serve_timer(interval=SLOW)
    await eventually(lambda: timers.rows.fetchval(HOLDER), what="a leader")
    await eventually(lambda: timers.rows.fetchval(LISTENING), what="a listener")
    await calls.publish("name: short\nnodes: {a: {wait: 100ms}}")

    (run,) = await timers.waiting()
    await calls.cancel(run)
    await calls.start("short")

    await eventually(lambda: _none_left(timers), within=0.8 * SLOW, what="delivery on a wake-up")


async def _none_left(timers: Any) -> bool:
    return bool(await timers.left() == 0)
