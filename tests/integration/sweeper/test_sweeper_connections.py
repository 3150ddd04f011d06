"""The sweeper lets go what time unblocked, and mends what crashes leave of connections."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import pytest
from perdure_contracts.internal.v1 import control_service_pb2 as control
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_runtime.clock import SystemClock
from perdure_runtime.election import Leadership
from perdure_runtime.rpc.client import RpcClient
from perdure_sweeper.connections import Connections
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from prometheus_client import REGISTRY

SEND = "name: send\nnodes: {send: {task: {handler: h}, connection: crm}}"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def sweep(
    database: Database, sweeper_client: RpcClient, leadership: Leadership
) -> Connections:
    return Connections(await database.open_pool("sweeper"), sweeper_client, leadership)


async def put(calls: Calls, **fields: Any) -> None:
    usual: dict[str, Any] = {
        "burst": 1.0,
        "max_failures": 5,
        "open_ms": 30_000,
        "scheme": "none",
        "name": "crm",
    }
    request = control.PutConnectionRequest(org=calls.org, **(usual | fields))
    await calls.control.PutConnection(request)
    await calls.publish(SEND)


async def blocked(calls: Calls) -> UUID:
    """A run whose step is blocked."""
    run = await calls.start("send")
    (answer,) = await calls.acquire(run)
    assert answer.status == hot.ACQUIRE_STATUS_BLOCKED
    return run


async def test_f068_f072_a_token_that_came_with_time_lets_a_blocked_step_go(
    calls: Calls, rows: asyncpg.Connection, sweep: Connections
) -> None:
    await put(calls, rate=0.01)
    await calls.grant(await calls.start("send"))
    first, second = await blocked(calls), await blocked(calls)
    assert (await sweep.unblock()).counts == {}
    await rows.execute("UPDATE connections SET filled_at = filled_at - interval '100 s'")
    assert (await sweep.unblock()).counts == {"unblocked_steps": 1}
    assert (await sweep.unblock()).counts == {}
    states = await rows.fetch("SELECT run_id, state::text FROM outbox ORDER BY outbox_id")
    assert [tuple(row) for row in states] == [(first, "ready"), (second, "blocked")]


async def test_a_place_that_no_lease_holds_is_given_back_and_lets_a_blocked_step_go(
    calls: Calls, rows: asyncpg.Connection, sweep: Connections
) -> None:
    await put(calls, slots=1)
    grant = await calls.grant(await calls.start("send"))
    await blocked(calls)
    assert (await sweep.mend()).counts == {}
    assert REGISTRY.get_sample_value("perdure_connection_slots_in_use") == 1
    assert REGISTRY.get_sample_value("perdure_outbox_blocked_rows") == 1
    await rows.execute("UPDATE connection_slots SET lease_id = gen_random_uuid()")
    assert (await sweep.mend()).counts == {"freed_places": 1, "resumed_causes": 0}
    assert await rows.fetchval("SELECT count(*) FROM outbox WHERE state = 'ready'") == 1
    await calls.succeed(grant.lease)


async def test_who_does_not_lead_sweeps_nothing(
    database: Database, sweeper_client: RpcClient, calls: Calls
) -> None:
    idle = Connections(
        await database.open_pool("sweeper"), sweeper_client, Leadership("other", SystemClock())
    )
    assert (await idle.unblock()).counts == {}
    assert (await idle.mend()).counts == {}
