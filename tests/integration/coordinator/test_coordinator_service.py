"""The coordinator as a server: health, reflection, wake-ups after commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
    reflection_pb2,
    reflection_pb2_grpc,
)
from perdure_coordinator.wakeups import OUTBOX, RUNS, TIMERS
from perdure_runtime.fail_points import FailPointHit, arm
from perdure_runtime.lifecycle import Service
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually

HOT = "perdure.internal.v1.CoordinatorService"
CONTROL = "perdure.internal.v1.ControlService"
WAIT = "name: waits\nnodes: {a: {wait: 1h}}"
SENDER = "SELECT pid FROM pg_stat_activity WHERE application_name = 'perdure-coordinator-wakeups'"
HERE = " AND datname = current_database()"

Heard = asyncio.Queue[str]


class Refuse:
    """Fails what passes, and tells that it did."""

    def __init__(self) -> None:
        self.passed = asyncio.Event()

    async def run(self, point: str) -> None:
        self.passed.set()
        raise FailPointHit(point)

    def run_sync(self, point: str) -> None:
        raise FailPointHit(point)


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def heard(database: Database) -> Heard:
    """The channels that were notified, in order."""
    queue: Heard = asyncio.Queue()
    listening = await database.connect()
    for channel in (RUNS, OUTBOX, TIMERS):
        await listening.add_listener(channel, lambda *told: queue.put_nowait(told[2]))
    return queue


async def hear(heard: Heard, channels: set[str]) -> None:
    """Wait until all of these were notified; others may be too."""
    missing = set(channels)
    async with asyncio.timeout(10):
        while missing:
            missing.discard(await heard.get())


async def test_health_tells_of_each_service_and_of_the_drain(
    calls: Calls,
    serve: Callable[..., Awaitable[tuple[Service, str]]],
    call_at: Callable[..., Calls],
) -> None:
    service, address = await serve()
    stub = health_pb2_grpc.HealthStub(call_at(address).channel)
    asked = [health_pb2.HealthCheckRequest(service=name) for name in ("", HOT, CONTROL)]

    before = [(await stub.Check(one)).status for one in asked]
    await service.drain()
    after = [(await stub.Check(one)).status for one in asked]

    assert set(before) == {health_pb2.HealthCheckResponse.SERVING}
    assert set(after) == {health_pb2.HealthCheckResponse.NOT_SERVING}


async def test_reflection_names_the_services(calls: Calls) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(calls.channel)

    async def ask() -> AsyncIterator[object]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    answers = [answer async for answer in stub.ServerReflectionInfo(ask())]

    names = {one.name for one in answers[0].list_services_response.service}
    assert {HOT, CONTROL, "grpc.health.v1.Health"} <= names


async def test_r2_commits_wake_those_whom_they_concern(calls: Calls, heard: Heard) -> None:
    await calls.publish(WAIT)
    await calls.start("waits")
    await hear(heard, {RUNS, TIMERS})
    await calls.start()
    await hear(heard, {RUNS, OUTBOX})


async def test_f078_a_wake_up_that_could_not_be_sent_is_sent_later(
    calls: Calls, heard: Heard
) -> None:
    with arm("coordinator.notify", "before", Refuse()) as refusal:
        await calls.start()
        await refusal.passed.wait()
        assert heard.empty()

    await hear(heard, {RUNS, OUTBOX})


async def test_f078_wake_ups_go_on_over_a_connection_that_broke(
    calls: Calls, heard: Heard, rows: asyncpg.Connection
) -> None:
    await calls.start()
    await hear(heard, {RUNS, OUTBOX})
    sender = await rows.fetchval(SENDER + HERE)
    await rows.execute("SELECT pg_terminate_backend($1)", sender)
    await eventually(lambda: _gone(rows, sender), what="the connection's end")

    await calls.start()

    await hear(heard, {RUNS, OUTBOX})


async def _gone(rows: asyncpg.Connection, pid: int) -> bool:
    return await rows.fetchval("SELECT 1 FROM pg_stat_activity WHERE pid = $1", pid) is None


async def test_f048_committers_go_on_over_connections_that_broke(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    run = await calls.start()
    await rows.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = 'perdure_coordinator' AND datname = current_database()"
    )

    async def granted() -> bool:
        (result,) = await calls.acquire(run, lease_id="00000000-0000-4000-8000-000000000001")
        return result.HasField("grant")

    await eventually(granted, what="a grant")
