"""Connections at the coordinator's doors: what a grant carries, and what reports bring about."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import control_service_pb2 as control
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1.connections_pb2 import (
    OPEN_CONNECTION_STATUS_LOST,
    OPEN_CONNECTION_STATUS_MISSING,
    OPEN_CONNECTION_STATUS_OPENED,
    OPEN_CONNECTION_STATUS_UNUSABLE,
    OpenConnectionRequest,
    OpenConnectionResponse,
)
from perdure_contracts.internal.v1.dispatch_pb2 import (
    ConnectionGrant,
    StepFailure,
    StepGrant,
    StepLease,
)
from perdure_store.audit import read_audit
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually

KEYS = "k1:" + base64.b64encode(bytes(32)).decode()
OTHER_KEYS = "k2:" + base64.b64encode(bytes([1]) * 32).decode()
SEND = "name: send\nnodes: {send: {task: {handler: h}, connection: crm}}"
CHAIN = (
    "name: chain\nnodes: {first: {task: {handler: h}},"
    " send: {needs: [first], task: {handler: h}, connection: crm}}"
)

Serve = Callable[..., Awaitable[tuple[Any, str]]]


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def caller(serve: Serve, call_at: Callable[..., Calls]) -> Calls:
    """A caller of a coordinator that can seal credentials."""
    _, address = await serve(credential_keys=KEYS)
    made = call_at(address)
    await made.publish(SEND)
    await made.publish(CHAIN)
    return made


async def put(calls: Calls, **fields: Any) -> None:
    usual: dict[str, Any] = {
        "org": calls.org, "name": "crm", "scheme": "bearer", "credentials": {"token": "secret-1"},
        "base_url": "https://crm.example", "burst": 1.0, "max_failures": 5, "open_ms": 30_000,
    }  # fmt: skip
    await calls.control.PutConnection(control.PutConnectionRequest(**(usual | fields)))


async def refuse(calls: Calls, grant: StepGrant, **of: Any) -> None:
    failure = StepFailure(code="UNAUTHORISED", message="401", **of)
    setattr(failure, "class", "authorisation")
    generation = grant.connection.generation
    item = hot.ReportResultItem(
        lease=grant.lease, failure=failure, connection_generation=generation
    )
    await calls.report(item)


async def status(rows: asyncpg.Connection, run: UUID) -> str:
    found: str = await rows.fetchval("SELECT status::text FROM steps WHERE run_id = $1", run)
    return found


async def test_a_grant_carries_what_its_connection_authorises_calls_with(caller: Calls) -> None:
    await put(caller)
    grant = await caller.grant(await caller.start("send"))
    assert grant.connection.name == "crm"
    assert grant.connection.base_url == "https://crm.example"
    assert dict(grant.connection.headers) == {"authorization": "Bearer secret-1"}
    assert dict(grant.connection.credentials) == {"token": "secret-1"}


async def test_a_chained_step_carries_it_too(caller: Calls) -> None:
    await put(caller, slots=1)
    first = await caller.grant(await caller.start("chain"))
    item = hot.ReportResultItem(lease=first.lease, output=b"1", next_lease_id=str(UUID(int=7)))
    (result,) = await caller.report(item, queues=["io:default"])
    assert dict(result.next.connection.headers) == {"authorization": "Bearer secret-1"}


async def test_credentials_are_kept_sealed_and_stand_in_no_history(
    caller: Calls, rows: asyncpg.Connection
) -> None:
    await put(caller)
    grant = await caller.grant(await caller.start("send"))
    await caller.succeed(grant.lease)
    for table in ("connection_secrets", "connections", "history", "steps", "attempts"):
        for row in await rows.fetch(f"SELECT * FROM {table}"):
            assert "secret-1" not in repr(dict(row)), table


async def test_only_the_coordinator_may_read_what_is_sealed(database: Database) -> None:
    for role in ("ingest", "relay", "timer", "sweeper"):
        connection = await database.connect(role)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT sealed FROM connection_secrets")


async def test_new_credentials_bring_back_the_step_that_the_old_ones_parked(
    caller: Calls, rows: asyncpg.Connection
) -> None:
    await put(caller)
    run = await caller.start("send")
    await refuse(caller, await caller.grant(run))
    assert await status(rows, run) == "parked"
    await put(caller, credentials={"token": "secret-2"})
    for _ in range(2):
        timers = await rows.fetch("SELECT timer_id, run_id, org FROM timers")
        refs = [hot.TimerRef(timer_id=t[0], run_id=str(t[1]), org=t[2]) for t in timers]
        await caller.fire(*refs)
    grant = await caller.grant(run)
    assert dict(grant.connection.headers) == {"authorization": "Bearer secret-2"}
    assert grant.connection.generation == 2


async def test_settings_without_credentials_keep_those_that_there_are(caller: Calls) -> None:
    await put(caller)
    await put(caller, credentials={}, slots=3)
    grant = await caller.grant(await caller.start("send"))
    assert dict(grant.connection.headers) == {"authorization": "Bearer secret-1"}
    assert grant.connection.generation == 1


@pytest.mark.parametrize("elsewhere", ["https://else.example", "http://crm.example", ""])
async def test_credentials_go_to_no_address_that_they_were_not_given_for(
    caller: Calls, elsewhere: str
) -> None:
    await put(caller)
    with pytest.raises(grpc.aio.AioRpcError, match="credentials are required again") as refused:
        await put(caller, credentials={}, base_url=elsewhere)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await put(caller, credentials={}, base_url="https://CRM.example/v2")
    await put(caller, credentials={"token": "secret-2"}, base_url=elsewhere)
    grant = await caller.grant(await caller.start("send"))
    assert grant.connection.base_url == elsewhere
    assert dict(grant.connection.credentials) == {"token": "secret-2"}


async def test_p2_a_step_without_a_place_is_answered_blocked_and_comes_back_by_itself(
    caller: Calls, rows: asyncpg.Connection
) -> None:
    await put(caller, slots=1)
    one, two = [await caller.start("send") for _ in range(2)]
    grant = await caller.grant(one)
    (blocked,) = await caller.acquire(two)
    assert blocked.status == hot.ACQUIRE_STATUS_BLOCKED
    await caller.succeed(grant.lease)
    assert await rows.fetchval("SELECT state::text FROM outbox WHERE run_id = $1", two) == "ready"


async def test_failures_that_are_reported_open_the_breaker(
    caller: Calls, rows: asyncpg.Connection
) -> None:
    await put(caller, max_failures=2)
    for _ in range(2):
        await caller.fail((await caller.grant(await caller.start("send"))).lease)

    async def is_open() -> bool:
        return bool(await rows.fetchval("SELECT open_until IS NOT NULL FROM connections"))

    await eventually(is_open, what="the breaker is open")
    (blocked,) = await caller.acquire(await caller.start("send"))
    assert blocked.status == hot.ACQUIRE_STATUS_BLOCKED


async def test_credentials_that_cannot_be_opened_park_the_step_and_lose_no_lease(
    caller: Calls, serve: Serve, call_at: Callable[..., Calls], rows: asyncpg.Connection
) -> None:
    await put(caller)
    _, address = await serve(credential_keys=OTHER_KEYS)
    run = await caller.start("send")
    (gone,) = await call_at(address).acquire(run)
    assert gone.status == hot.ACQUIRE_STATUS_GONE
    assert await status(rows, run) == "parked"


async def test_without_a_key_a_connection_with_credentials_is_refused(
    serve: Serve, call_at: Callable[..., Calls]
) -> None:
    _, address = await serve()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await put(call_at(address))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "CREDENTIAL_KEYS" in (caught.value.details() or "")
    await put(call_at(address), scheme="none", credentials={})


async def test_a_command_about_no_connection_is_refused(caller: Calls) -> None:
    request = control.CommandConnectionRequest(
        org=caller.org, name="none", command=control.CONNECTION_COMMAND_REPAIR
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await caller.control.CommandConnection(request)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def told(rows: asyncpg.Connection, org: str) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return what the audit log tells of the org, oldest first."""
    lines = await read_audit(rows, org, limit=100)
    return [(one.actor, one.action, one.target, json.loads(one.details)) for one in lines[::-1]]


async def test_every_change_of_a_connection_is_audited_and_no_line_holds_a_secret(
    caller: Calls, rows: asyncpg.Connection
) -> None:
    await put(caller, actor="ada")
    await put(caller, credentials={}, slots=3, actor="bob")
    await put(caller, credentials={"token": "secret-2"}, slots=3, actor="bob")
    for command, actor in (
        (control.CONNECTION_COMMAND_DISABLE, "cy"),
        (control.CONNECTION_COMMAND_REPAIR, "dee"),
        (control.CONNECTION_COMMAND_DELETE, "eve"),
    ):
        await caller.control.CommandConnection(
            control.CommandConnectionRequest(
                org=caller.org, name="crm", command=command, actor=actor
            )
        )
    lines = await told(rows, caller.org)
    assert [line[:3] for line in lines] == [
        ("ada", "connection.put", "crm"),
        ("bob", "connection.put", "crm"),
        ("bob", "connection.put", "crm"),
        ("cy", "connection.disable", "crm"),
        ("dee", "connection.repair", "crm"),
        ("eve", "connection.delete", "crm"),
    ]
    made, limited, reconnected, _, repaired, _ = [line[3] for line in lines]
    assert (made["before"], made["after"]["scheme"]) == (None, "bearer")
    assert (limited["before"]["slots"], limited["after"]["slots"]) == (None, 3)
    assert (limited["new_credentials"], reconnected["new_credentials"]) == (False, True)
    assert repaired["generation"] == 3
    assert "secret" not in json.dumps(lines)


async def test_a_change_that_is_refused_is_not_audited(
    caller: Calls, rows: asyncpg.Connection
) -> None:
    request = control.CommandConnectionRequest(
        org=caller.org, name="none", command=control.CONNECTION_COMMAND_DELETE, actor="ada"
    )
    with pytest.raises(grpc.aio.AioRpcError):
        await caller.control.CommandConnection(request)
    assert await told(rows, caller.org) == []


@pytest.mark.parametrize(
    ("refused", "parked_on"), [("billing", "connection:billing"), ("No Name", "connection:crm")]
)
async def test_a_step_is_parked_on_the_connection_that_its_handler_was_refused_by(
    caller: Calls, rows: asyncpg.Connection, refused: str, parked_on: str
) -> None:
    await put(caller)
    await put(caller, name="billing")
    run = await caller.start("send")
    grant = await caller.grant(run)
    await refuse(caller, grant, refused_connection=refused, refused_generation=1)
    found = await rows.fetchval("SELECT parked_on FROM steps WHERE run_id = $1", run)
    assert found == parked_on


async def opened(calls: Calls, lease: StepLease, name: str = "crm") -> OpenConnectionResponse:
    return await calls.hot.OpenConnection(OpenConnectionRequest(lease=lease, name=name))


async def test_r6_a_connection_is_opened_for_the_holder_of_a_live_lease_and_nobody_else(
    caller: Calls,
) -> None:
    await put(caller)
    await caller.publish("name: plain\nnodes: {work: {task: {handler: h}}}")
    grant = await caller.grant(await caller.start("plain"))
    found = await opened(caller, grant.lease)
    assert found.status == OPEN_CONNECTION_STATUS_OPENED
    assert dict(found.connection.headers) == {"authorization": "Bearer secret-1"}
    for change in ({"org": "rival"}, {"fence": 2}, {"lease_id": str(UUID(int=9))}, {"step": 2}):
        forged = StepLease()
        forged.CopyFrom(grant.lease)
        for field, value in change.items():
            setattr(forged, field, value)
        assert (await opened(caller, forged)).status == OPEN_CONNECTION_STATUS_LOST, change
    await caller.succeed(grant.lease)
    assert (await opened(caller, grant.lease)).status == OPEN_CONNECTION_STATUS_LOST


async def test_a_connection_that_nobody_may_use_is_not_opened(
    caller: Calls, serve: Serve, call_at: Callable[..., Calls]
) -> None:
    await put(caller)
    await caller.publish("name: plain\nnodes: {work: {task: {handler: h}}}")
    lease = (await caller.grant(await caller.start("plain"))).lease
    assert (await opened(caller, lease, "none")).status == OPEN_CONNECTION_STATUS_MISSING
    _, other = await serve(credential_keys=OTHER_KEYS)
    unreadable = await opened(call_at(other), lease)
    assert unreadable.status == OPEN_CONNECTION_STATUS_UNUSABLE
    await caller.control.CommandConnection(
        control.CommandConnectionRequest(
            org=caller.org, name="crm", command=control.CONNECTION_COMMAND_DISABLE
        )
    )
    disabled = await opened(caller, lease)
    assert (disabled.status, disabled.why) == (
        OPEN_CONNECTION_STATUS_UNUSABLE,
        "somebody disabled it",
    )
    assert disabled.connection == ConnectionGrant(name="crm", generation=1)
