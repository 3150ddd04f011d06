"""The gate of a real ingest: who is let in, to what, how often, and for how long after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from perdure import Client, PerdureApiError
from perdure_store.keys import revoke_key
from perdure_store.members import put_member, remove_member
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually

UNKNOWN = "pdr_abcdefghijkl_" + 52 * "a"
SOON = {"key_cache_seconds": 0.1}

soon = pytest.mark.parametrize("config_changes", [SOON])


@pytest.fixture
async def admin(database: Database) -> asyncpg.Connection:
    return await database.connect()


Connect = Callable[[str | None], Any]


@pytest.fixture
def calling(address: str) -> Connect:
    """Open a client that presents a key, or none."""

    @asynccontextmanager
    async def connect(key: str | None) -> AsyncIterator[Client]:
        async with Client(address, api_key=key or "", attempts=1) as client:
            yield client

    return connect


async def reason_of(call: Awaitable[object]) -> str:
    """Return why a call was refused, empty if it was not."""
    try:
        await call
    except PerdureApiError as refusal:
        return refusal.reason
    return ""


async def lists(client: Client) -> list[str]:
    return [run.run_id async for run in client.list_runs()]


async def test_without_a_key_nothing_is_answered_but_health(calling: Connect, address: str) -> None:
    async with calling(None) as client:
        with pytest.raises(PerdureApiError) as refused:
            await client.get_workflow("w")
    assert (refused.value.code, refused.value.reason) == ("UNAUTHENTICATED", "KEY_MISSING")
    async with grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("key", ["pdr_short", UNKNOWN, "eyJhbGciOi.J9.x"])
async def test_a_key_that_nobody_was_given_is_refused(calling: Connect, key: str) -> None:
    async with calling(key) as client:
        assert await reason_of(lists(client)) == "KEY_INVALID"


async def test_a_key_that_was_cut_is_told_what_a_key_looks_like(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    async with calling((await give_key(admin))[:-1]) as client:
        with pytest.raises(PerdureApiError, match="pdr_ and 65 characters"):
            await lists(client)


async def test_a_wrong_secret_is_refused_also_when_the_right_one_was_just_used(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    right = await give_key(admin)
    wrong = right[:-1] + ("a" if right[-1] != "a" else "b")
    async with calling(right) as client, calling(wrong) as other:
        assert await reason_of(lists(other)) == "KEY_INVALID"
        assert await lists(client) == []
        assert await reason_of(lists(other)) == "KEY_INVALID"
        assert await lists(client) == []


async def test_an_expired_key_is_told_so(calling: Connect, admin: asyncpg.Connection) -> None:
    key = await give_key(admin, name="old", lasts=3600)
    await admin.execute("UPDATE api_keys SET expires_at = clock_timestamp() WHERE name = 'old'")
    async with calling(key) as client:
        assert await reason_of(lists(client)) == "KEY_EXPIRED"


async def test_a_key_expires_at_its_instant_however_long_it_is_cached(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    key = await give_key(admin, lasts=0.4)
    async with calling(key) as client:
        assert await lists(client) == []

        async def is_refused() -> bool:
            return await reason_of(lists(client)) == "KEY_EXPIRED"

        await eventually(is_refused, within=1.5)


@soon
async def test_a_revoked_key_stops_within_the_cache_s_seconds(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    key = await give_key(admin, name="lost")
    async with calling(key) as client:
        assert await lists(client) == []
        key_id = await admin.fetchval("SELECT key_id FROM api_keys WHERE name = 'lost'")
        await revoke_key(admin, "default", key_id, by="tests", reason="lost")

        async def is_refused() -> bool:
            return await reason_of(lists(client)) == "KEY_REVOKED"

        await eventually(is_refused, within=5)


@soon
async def test_a_member_s_keys_follow_the_member_s_roles_and_end_with_them(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    await put_member(admin, "default", "maya", ["operator"], by="tests")
    key = await give_key(admin, member="maya")
    async with calling(key) as client:
        assert await reason_of(client.start_run("w")) == ""
        await put_member(admin, "default", "maya", ["viewer"], by="tests")

        async def has(reason: str) -> bool:
            return await reason_of(client.start_run("w")) == reason

        await eventually(lambda: has("PERMISSION_MISSING"), within=5)
        await remove_member(admin, "default", "maya", by="tests", reason="left")
        await eventually(lambda: has("KEY_REVOKED"), within=5)


async def test_a_key_does_what_its_roles_and_scopes_allow_and_says_what_is_missing(
    calling: Connect, admin: asyncpg.Connection, coordinator: Any
) -> None:
    key = await give_key(admin, roles=["operator"], scopes=["runs:start"])
    async with calling(key) as client:
        await client.start_run("w")
        with pytest.raises(PerdureApiError) as refused:
            await client.cancel_run("not even an id")
    assert (refused.value.code, refused.value.reason) == ("PERMISSION_DENIED", "PERMISSION_MISSING")
    assert refused.value.metadata["permission"] == "runs:control"
    assert len(coordinator.items) == 1


async def test_permission_is_checked_before_existence(
    calling: Connect, admin: asyncpg.Connection, rows: Any
) -> None:
    run_id = str(await rows.waiting_run())
    unknown = "0190b000-0000-7000-8000-000000000000"
    async with calling(await give_key(admin, roles=["viewer"])) as client:
        reasons = {await reason_of(client.cancel_run(each)) for each in (run_id, unknown)}
    assert reasons == {"PERMISSION_MISSING"}


async def test_a_key_acts_for_its_own_org_alone(
    calling: Connect, admin: asyncpg.Connection, rows: Any, coordinator: Any
) -> None:
    run_id = str(await rows.waiting_run())
    async with calling(await give_key(admin, org="acme")) as client:
        assert await lists(client) == []
        assert await reason_of(client.get_run(run_id)) == "RUN_NOT_FOUND"
        await client.start_run("w")
    assert [item.org for item in coordinator.items] == ["acme"]


async def test_what_all_orgs_share_is_for_the_org_that_runs_the_installation(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    async with calling(await give_key(admin, org="acme")) as client:
        assert await reason_of(client.lanes.weights()) == "PERMISSION_MISSING"
        assert await client.lanes.list()
    async with calling(await give_key(admin)) as client:
        assert {weight.org for weight in await client.lanes.weights()} == {"acme", "default"}


async def test_a_flood_beyond_a_key_s_rate_is_told_when_to_come_back_and_leaves_others_served(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    flooding = await give_key(admin, rate=1.0, burst=5)
    async with calling(flooding) as flood, calling(await give_key(admin)) as quiet:
        refused = await asyncio.gather(
            *(flood.get_workflow("none") for _ in range(50)), return_exceptions=True
        )
        limited = [
            each.retry_after
            for each in refused
            if isinstance(each, PerdureApiError) and each.reason == "RATE_LIMITED"
        ]
        assert len(limited) >= 44
        assert all(wait is not None and 0 < wait <= 1 for wait in limited)
        assert await lists(quiet) == []


@pytest.mark.parametrize("config_changes", [{"key_calls": 10}])
async def test_a_key_whose_streams_take_all_its_calls_leaves_others_served(
    calling: Connect, admin: asyncpg.Connection, rows: Any
) -> None:
    run_id = str(await rows.waiting_run())
    async with calling(await give_key(admin)) as idle, calling(await give_key(admin)) as quiet:
        streams = [idle.watch_run(run_id) for _ in range(10)]
        for stream in streams:
            await anext(stream)
        assert await reason_of(lists(idle)) == "RATE_LIMITED"
        assert await lists(quiet) == [run_id]
        await streams[0].aclose()

        async def is_served() -> bool:
            return await reason_of(lists(idle)) == ""

        await eventually(is_served, within=5)
        for stream in streams:
            await stream.aclose()


async def test_a_key_that_was_looked_up_costs_the_database_nothing_while_it_is_known(
    calling: Connect, admin: asyncpg.Connection
) -> None:
    async with calling(await give_key(admin)) as client, calling(await give_key(admin)) as other:
        await lists(client)
        async with admin.transaction():
            await admin.execute("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
            assert await lists(client) == []
            looking_up = asyncio.ensure_future(lists(other))
            assert await lists(client) == []
            assert not looking_up.done()
        assert await looking_up == []
