"""Every public method, found in the contracts, with every role, another org's key, and none."""

from __future__ import annotations

import importlib
import pkgutil
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import grpc
import perdure_contracts.v1
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from perdure_ingest.gate.table import RULES
from perdure_runtime.access import PERMISSIONS_OF, Permission, Role
from perdure_runtime.errors import PerdureError
from perdure_runtime.rpc.errors import from_call_error
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database

HOME = "default"
"""The org that runs the installation."""

SECONDS = 10.0


def methods() -> Iterator[MethodDescriptor]:
    for found in pkgutil.iter_modules(perdure_contracts.v1.__path__):
        if found.name.endswith("_pb2"):
            module = importlib.import_module(f"perdure_contracts.v1.{found.name}")
            for service in module.DESCRIPTOR.services_by_name.values():
                yield from service.methods


ALL = {f"/{method.containing_service.full_name}/{method.name}": method for method in methods()}
METHODS = {name: method for name, method in ALL.items() if name in RULES}
"""Those of ingest's door."""


@pytest.fixture
async def channel(address: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(address) as channel:
        yield channel


@pytest.fixture
async def admin(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def call(
    channel: grpc.aio.Channel, name: str, key: str | None, request: Message | None = None
) -> Any:
    """Call a method; return the refusal, or the first answer if there is one."""
    method = METHODS[name]
    told = request or message_factory.GetMessageClass(method.input_type)()
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    answers = message_factory.GetMessageClass(method.output_type)
    make: Any = channel.unary_stream if method.server_streaming else channel.unary_unary
    callable_ = make(
        name,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answers.FromString,
    )
    try:
        if not method.server_streaming:
            return await callable_(told, timeout=SECONDS, metadata=metadata)
        async for answer in callable_(told, timeout=SECONDS, metadata=metadata):
            return answer
    except grpc.aio.AioRpcError as error:
        return from_call_error(error)
    return None


def verdict(outcome: object) -> str:
    """Return `let in`, or why the gate refused."""
    if isinstance(outcome, PerdureError) and outcome.code in (
        "UNAUTHENTICATED",
        "PERMISSION_DENIED",
    ):
        return str(outcome.reason)
    return "let in"


def expected(role: Role, name: str, *, home: bool) -> str:
    rule = RULES[name]
    allowed = rule.permission in PERMISSIONS_OF[role] and (home or not rule.installation)
    return "let in" if allowed else "PERMISSION_MISSING"


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("home", [True, False], ids=["home", "elsewhere"])
async def test_each_method_lets_in_whom_its_row_allows_and_nobody_else(
    channel: grpc.aio.Channel, admin: asyncpg.Connection, role: Role, home: bool
) -> None:
    key = await give_key(admin, org=HOME if home else "acme", roles=[role])
    found = {name: verdict(await call(channel, name, key)) for name in METHODS}
    assert found == {name: expected(role, name, home=home) for name in METHODS}


async def test_without_a_key_no_method_is_answered(channel: grpc.aio.Channel) -> None:
    found = {name: verdict(await call(channel, name, None)) for name in METHODS}
    assert found == dict.fromkeys(METHODS, "KEY_MISSING")


@pytest.mark.parametrize("permission", Permission)
async def test_a_scope_opens_the_methods_that_ask_for_it_alone(
    channel: grpc.aio.Channel, admin: asyncpg.Connection, permission: Permission
) -> None:
    key = await give_key(admin, scopes=[permission])
    opened = {name for name in METHODS if verdict(await call(channel, name, key)) == "let in"}
    assert opened == {name for name, rule in RULES.items() if rule.permission == permission}


async def test_another_org_s_key_finds_nothing_and_changes_nothing_of_an_org(
    channel: grpc.aio.Channel, admin: asyncpg.Connection, rows: Any, coordinator: Any
) -> None:
    """Every text of every request names what the org `owner` has."""
    await give_key(admin, org="owner", name="owned")
    run_id = await rows.run(org="owner", workflow="owned", start_key="owned", run_input=b'"owned"')
    await rows.step(run_id, org="owner", input=b'"owned"', output=b'"owned"')
    await rows.workflow("owned", org="owner")
    key = await give_key(admin, org="other", name="mine")
    before = await _state(admin)
    for name, method in METHODS.items():
        outcome = await call(channel, name, key, filled(method, run_id))
        shown = outcome.SerializeToString() if isinstance(outcome, Message) else b""
        assert b'"owned"' not in shown, name
        assert run_id.bytes not in shown, name
    assert {item.org for item in coordinator.items} <= {"other"}
    assert await _state(admin) == before


async def _state(admin: asyncpg.Connection) -> list[Any]:
    found = [
        await admin.fetch(f"SELECT * FROM {table} WHERE org = 'owner' ORDER BY 1")
        for table in ("runs", "steps", "workflows", "api_keys", "members", "connections", "budgets")
    ]
    return [[dict(row) for row in rows] for rows in found]


def filled(method: MethodDescriptor, run_id: uuid.UUID) -> Message:
    """A request of which every plain field names something of the org `owner`."""
    request = message_factory.GetMessageClass(method.input_type)()
    for field in method.input_type.fields:
        if field.is_repeated or field.containing_oneof is not None:
            continue
        if field.type == FieldDescriptor.TYPE_STRING and field.name != "page_token":
            setattr(request, field.name, str(run_id) if field.name.endswith("_id") else "owned")
    return request
