"""Connections at the public door: shown without secrets, refused by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from perdure import Client
from perdure.errors import PerdureApiError
from perdure_contracts.v1 import connection_service_pb2 as pb
from perdure_machine.definition.parse import parse
from perdure_store.connections import Sealed, Settings, put_connection
from perdure_testkit.database import Database

Ingest = Any


@pytest.fixture
async def stored(database: Database) -> None:
    connection = await database.connect("coordinator")
    for name in ("b", "a", "c"):
        settings = Settings(name, scheme="bearer", sealed=Sealed("k1", b"sealed-bytes"), slots=2)
        await put_connection(connection, "default", settings, actor="ada")
    await put_connection(connection, "rival", Settings("theirs"), actor="ada")


async def test_connections_are_shown_without_anything_secret(client: Client, stored: None) -> None:
    shown = await client.connections.get("a")
    assert (shown.name, shown.has_credentials, shown.slots) == ("a", True, 2)
    assert shown.health == pb.CONNECTION_HEALTH_OK
    assert b"sealed-bytes" not in shown.SerializeToString()


async def test_an_org_lists_its_own_by_name(client: Client, stored: None) -> None:
    assert [each.name async for each in client.connections.list()] == ["a", "b", "c"]


async def test_one_that_another_org_has_is_not_found(client: Client, stored: None) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await client.connections.get("theirs")
    assert caught.value.reason == "CONNECTION_NOT_FOUND"


async def test_a_connection_is_probed_by_a_run_of_the_orgs(
    client: Client, coordinator: Any, database: Database
) -> None:
    connection = await database.connect("coordinator")
    settings = Settings("crm", base_url="https://crm.example/v1/", probe_path="/health")
    await put_connection(connection, "default", settings, actor="ada")
    assert await client.connections.probe("crm")
    published, item = coordinator.items
    given = json.loads(item.input)
    assert given == {"connection": "crm", "url": "https://crm.example/v1/health"}
    node = parse(published.document, known_lanes=frozenset({"io", "slow"})).nodes["ask"]
    assert node.connection is not None


async def test_one_without_a_probe_path_is_not_probed(client: Client, stored: None) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await client.connections.probe("a")
    assert [one.field for one in caught.value.fields] == ["name"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": "My CRM"}, "name"),
        ({"base_url": "crm.example"}, "base_url"),
        ({"base_url": "ftp://crm.example"}, "base_url"),
        ({"base_url": "https://user:pw@crm.example"}, "base_url"),
        ({"base_url": "https://[::1"}, "base_url"),
        ({"scheme": 99}, "scheme"),
        ({"scheme": 2, "credentials": {"username": "u"}}, "credentials['token']"),
        ({"scheme": 2, "credentials": {"token": "a\r\nb"}}, "credentials['token']"),
        ({"scheme": 4, "credentials": {"name": "a b", "value": "v"}}, "credentials['name']"),
        ({"credentials": {"token": "t"}}, "credentials['token']"),
        ({"slots": -1}, "slots"),
        ({"rate": -0.5}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"burst": 0.5}, "burst"),
        ({"max_failures": -1}, "max_failures"),
        ({"probe_path": "/health"}, "probe_path"),
    ],
)
async def test_what_is_wrong_is_refused_by_field_and_repeats_no_secret(
    client: Client, fields: dict[str, Any], named: str
) -> None:
    request = pb.PutConnectionRequest(**({"name": "crm"} | fields))
    with pytest.raises(PerdureApiError) as caught:
        await client.connections.put(request)
    error = caught.value
    assert named in [one.field for one in error.fields]
    assert "pw" not in str(error)
