"""Accounts of handlers without an engine: how a user's own tests stand for a provider."""

from __future__ import annotations

import asyncio
from typing import Any

import perdure
import pytest
from perdure import testing
from perdure.connection_door import CallRequest


def greet(contact: Any, ctx: perdure.HandlerContext) -> str:
    found = ctx.connection("crm").request("GET", "/contacts", query={"email": contact})
    return str(found.json()["name"])


def ada(request: CallRequest) -> testing.Answer:
    return testing.Answer(200, body=b'{"name": "Ada"}')


def test_a_handler_is_tested_with_what_stands_for_its_provider() -> None:
    crm = testing.MemoryConnection("crm", ada)
    assert greet("ada@example.org", testing.context(connections=[crm])) == "Ada"
    (request,) = crm.requests
    assert (request.method, request.url) == ("GET", "/contacts")
    assert request.query == {"email": "ada@example.org"}


async def test_in_a_loop_everything_is_awaited() -> None:
    crm = testing.MemoryConnection("crm", ada, credentials={"token": "t"})
    connection = await testing.context(connections=[crm]).connection()
    assert (connection.name, dict(connection.credentials)) == ("crm", {"token": "t"})
    answer = await asyncio.wait_for(connection.request("POST", "/mail", json=None), 5)
    assert answer.status == 200
    assert crm.requests[0].body == b"null"
    assert crm.requests[0].headers == {"content-type": "application/json"}


def test_what_the_provider_refuses_is_raised() -> None:
    def refuse(request: CallRequest) -> testing.Answer:
        raise perdure.CredentialsRefused("HTTP_401", "no")

    crm = testing.MemoryConnection("crm", refuse)
    with pytest.raises(perdure.Unauthorised) as caught:
        greet("ada@example.org", testing.context(connections=[crm]))
    assert caught.value.error_class == "authorisation"
    assert isinstance(caught.value, perdure.NotPerformed)


@pytest.mark.parametrize("name", ["", "billing"])
def test_an_account_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(perdure.Permanent, match="CONNECTION_NOT_FOUND"):
        testing.context().connection(name)


def test_bytes_keep_the_type_that_they_are_given() -> None:
    crm = testing.MemoryConnection("crm", ada)
    connection = testing.context(connections=[crm]).connection()
    connection.request("PUT", "/file", body=b"\x00", headers={"Content-Type": "image/png"})
    connection.request("PUT", "/file", body=b"\x00")
    types = [list(request.headers.values()) for request in crm.requests]
    assert types == [["image/png"], ["application/octet-stream"]]


def test_credentials_are_not_shown_with_the_account() -> None:
    crm = testing.MemoryConnection("crm", ada, credentials={"token": "top-secret"})
    connection = testing.context(connections=[crm]).connection()
    assert "top-secret" not in f"{connection!r} {crm.account!r}"
