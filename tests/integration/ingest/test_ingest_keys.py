"""Keys and members, made and ended at the doors: what they may, and what the audit log says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from perdure import Client, PerdureApiError
from perdure_contracts.internal.v1 import key_service_pb2 as internal
from perdure_contracts.internal.v1.key_service_pb2_grpc import add_KeyServiceServicer_to_server
from perdure_coordinator.handlers.check_key import check_key
from perdure_coordinator.key_servicer import Keys
from perdure_runtime.api_keys import read_key
from perdure_runtime.errors import Reason, Unauthenticated
from perdure_runtime.rpc.server import RpcServer, ServerSettings
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually

COORDINATOR = "perdure.internal.v1.CoordinatorService"
KEYS = "perdure.internal.v1.KeyService"


@pytest.fixture
async def config_changes(database: Database, coordinator: Any) -> AsyncIterator[dict[str, Any]]:
    """A coordinator that keeps keys; for the rest it is the scripted one."""
    spare = await database.open_pool("coordinator")
    register = partial(add_KeyServiceServicer_to_server, Keys(spare))
    server = RpcServer(
        {COORDINATOR: coordinator.register, KEYS: register},
        ServerSettings("127.0.0.1:0", grace=0.1),
    )
    await server.start()
    yield {"coordinator_address": f"127.0.0.1:{server.port}", "key_cache_seconds": 0.1}
    await server.stop()


async def reason_of(call: Any) -> str:
    with pytest.raises(PerdureApiError) as refused:
        await call
    return refused.value.reason


async def use(address: str, key: str) -> str:
    """List the runs; return why that was refused, empty if it was not."""
    async with Client(address, api_key=key, attempts=1) as client:
        try:
            _ = [run async for run in client.list_runs()]
        except PerdureApiError as refusal:
            return refusal.reason
    return ""


async def log(client: Client, **wanted: str) -> list[tuple[str, str, str, Any]]:
    """The audit log, oldest first."""
    lines = [entry async for entry in client.audit.entries(**wanted)]
    return [(e.actor, e.action, e.target, json.loads(e.details)) for e in reversed(lines)]


async def test_a_key_that_was_made_works_and_its_secret_is_kept_nowhere(
    client: Client, address: str, database: Database
) -> None:
    made = await client.keys.create("deploys", ["operator"], scopes=["runs:read"], rate=50.0)
    assert await use(address, made.secret) == ""
    assert (made.key.name, list(made.key.roles), made.key.burst) == ("deploys", ["operator"], 100)
    connection = await database.connect()
    secret = made.secret.rpartition("_")[2]
    kept = [
        str(await connection.fetch(f"SELECT * FROM {table}"))
        for table in ("api_keys", "api_key_secrets", "audit_log")
    ]
    assert not any(secret in rows for rows in kept)
    assert [key.name async for key in client.keys.list()].count("deploys") == 1


async def test_a_rotated_key_has_two_secrets_for_a_time_and_then_the_new_one_alone(
    client: Client, address: str
) -> None:
    old = await client.keys.create("deploys", ["viewer"])
    new = await client.keys.rotate("deploys", timedelta(hours=1))
    assert new.key.key_id == old.key.key_id
    assert new.key.secrets == 2
    assert [await use(address, each.secret) for each in (old, new)] == ["", ""]
    newest = await client.keys.rotate("deploys", timedelta(0))
    assert newest.key.secrets == 1

    async def are_over() -> bool:
        return {await use(address, each.secret) for each in (old, new)} == {"KEY_EXPIRED"}

    await eventually(are_over, within=5)
    assert await use(address, newest.secret) == ""


async def test_a_revoked_key_ends_and_its_name_is_free_again(client: Client, address: str) -> None:
    made = await client.keys.create("deploys", ["viewer"])
    assert await reason_of(client.keys.create("deploys", ["viewer"])) == "KEY_EXISTS"
    await client.keys.revoke("deploys", "leaked")

    async def is_over() -> bool:
        return await use(address, made.secret) == "KEY_REVOKED"

    await eventually(is_over, within=5)
    assert await reason_of(client.keys.revoke("deploys")) == "KEY_NOT_FOUND"
    again = await client.keys.create("deploys", ["viewer"])
    assert await use(address, again.secret) == ""
    listed = [key async for key in client.keys.list(with_revoked=True) if key.name == "deploys"]
    assert sorted(key.HasField("revoked_at") for key in listed) == [False, True]


async def test_nobody_hands_on_what_they_may_not_do_themselves(
    address: str, database: Database
) -> None:
    connection = await database.connect()
    strong = await give_key(connection, name="strong")
    weak = await give_key(connection, scopes=["keys:manage", "members:manage", "runs:read"])
    async with Client(address, api_key=weak) as client:
        refused = [
            await reason_of(client.keys.create("mine", ["admin"])),
            await reason_of(client.keys.create("mine", ["viewer"])),
            await reason_of(client.keys.create("mine", ["viewer"], scopes=["lanes:read"])),
            await reason_of(client.keys.rotate("strong")),
            await reason_of(client.members.put("maya", ["operator"])),
        ]
        assert refused == ["PERMISSION_MISSING"] * 5
        made = await client.keys.create("mine", ["viewer"], scopes=["runs:read"])
    assert await use(address, made.secret) == ""
    assert await use(address, strong) == ""


async def test_keys_of_other_orgs_are_neither_seen_nor_ended(
    client: Client, address: str, database: Database
) -> None:
    foreign = await give_key(await database.connect(), org="acme", name="theirs")
    assert "theirs" not in [key.name async for key in client.keys.list()]
    assert await reason_of(client.keys.revoke("theirs")) == "KEY_NOT_FOUND"
    assert await reason_of(client.keys.rotate("theirs")) == "KEY_NOT_FOUND"
    assert await use(address, foreign) == ""


async def test_a_member_s_key_ends_with_the_member(client: Client, address: str) -> None:
    assert await reason_of(client.keys.create("m", ["viewer"], member="maya")) == "MEMBER_NOT_FOUND"
    await client.members.put("maya", ["viewer", "approver"])
    made = await client.keys.create("maya-laptop", ["viewer"], member="maya")
    assert [list(one.roles) async for one in client.members.list()] == [["approver", "viewer"]]
    await client.members.remove("maya", "left")

    async def is_over() -> bool:
        return await use(address, made.secret) == "KEY_REVOKED"

    await eventually(is_over, within=5)
    assert [one async for one in client.members.list()] == []
    assert await reason_of(client.members.remove("maya")) == "MEMBER_NOT_FOUND"


async def test_every_change_is_told_in_the_audit_log_with_who_did_it(
    client: Client, address: str, database: Database
) -> None:
    acting = await give_key(await database.connect(), name="ops")
    key_id = await (await database.connect()).fetchval(
        "SELECT key_id FROM api_keys WHERE name = 'ops'"
    )
    async with Client(address, api_key=acting) as ops:
        await ops.members.put("maya", ["viewer"])
        await ops.members.put("maya", ["viewer"])
        await ops.keys.create("deploys", ["viewer"], member="maya")
        await ops.keys.rotate("deploys")
        await ops.keys.revoke("deploys", "leaked")
        await ops.members.remove("maya", "left")
    lines = [line for line in await log(client) if line[0] == f"key ops ({key_id})"]
    assert [(action, target) for _, action, target, _ in lines] == [
        ("member.put", "maya"),
        ("key.create", "deploys"),
        ("key.rotate", "deploys"),
        ("key.revoke", "deploys"),
        ("member.remove", "maya"),
    ]
    assert lines[3][3]["reason"] == "leaked"
    assert await log(client, action="key.rotate") == [lines[2]]


async def test_the_audit_log_is_read_in_pages_and_of_the_own_org_alone(
    client: Client, address: str, database: Database
) -> None:
    connection = await database.connect()
    await give_key(connection, org="acme", name="theirs")
    for number in range(3):
        await client.members.put(f"m{number}", ["viewer"])
    targets = [line[2] for line in await log(client, action="member.put")]
    assert targets == ["m0", "m1", "m2"]
    assert "theirs" not in [line[2] for line in await log(client)]
    assert await log(client, action="member.put", target="m1") != []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"roles": []}, "roles"),
        ({"roles": ["king"]}, "roles"),
        ({"scopes": ["runs:fly"]}, "scopes"),
        ({"lasts": timedelta(0)}, "lasts"),
        ({"rate": -1.0}, "rate"),
        ({"burst": 5}, "burst"),
        ({"member": "x" * 201}, "member"),
    ],
)
async def test_what_a_key_cannot_be_is_refused_by_field(
    client: Client, changes: dict[str, Any], field: str
) -> None:
    asked: dict[str, Any] = {"name": "k", "roles": ["viewer"]} | changes
    with pytest.raises(PerdureApiError) as refused:
        await client.keys.create(**asked)
    assert [problem.field for problem in refused.value.fields] == [field]


async def test_a_scope_that_there_is_not_is_named_with_those_near_it(client: Client) -> None:
    with pytest.raises(PerdureApiError) as refused:
        await client.keys.create("k", ["viewer"], scopes=["runs:read", "runs:strt"])
    (problem,) = refused.value.fields
    assert problem.description.startswith("'runs:strt' is no permission; near it are runs:start")


async def test_a_key_s_use_is_told_to_the_minute(
    client: Client, ingest: Any, database: Database
) -> None:
    made = await client.keys.create("deploys", ["viewer"])
    assert not made.key.HasField("last_used_at")
    async with Client(client.address, api_key=made.secret) as used:
        _ = [run async for run in used.list_runs()]
    await ingest.key_use.tell()
    (key,) = [key async for key in client.keys.list() if key.name == "deploys"]
    assert key.HasField("last_used_at")


async def test_services_without_a_database_ask_whom_a_key_stands_for(
    client: Client, database: Database
) -> None:
    spare = await database.open_pool("coordinator")
    made = await client.keys.create("handlers", ["worker"])

    async def check(text: str) -> internal.CheckKeyResponse:
        presented = read_key(text)
        assert presented is not None
        secret = internal.KeySecret(prefix=presented.prefix, digest=presented.digest)
        return await check_key(spare, internal.CheckKeyRequest(secret=secret))

    answer = await check(made.secret)
    assert (answer.org, list(answer.permissions)) == ("default", ["work"])
    assert answer.actor == f"key handlers ({made.key.key_id})"
    assert 0 < answer.good_for <= 2
    await client.keys.revoke("handlers")
    with pytest.raises(Unauthenticated) as refused:
        await check(made.secret)
    assert refused.value.reason == Reason.KEY_REVOKED
    with pytest.raises(Unauthenticated):
        await check("pdr_abcdefghijkl_" + 52 * "a")
