"""Credentials at rest: bound to their org and name, opened by every key, sealed by the first."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from perdure_coordinator.credentials import authorising
from perdure_coordinator.sealing import open_credentials, parse_keys, seal_credentials
from perdure_runtime.errors import FailedPrecondition, Internal, Reason

OLD, NEW = [base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2)]
SECRET = {"token": "very-secret-ü"}


async def test_credentials_come_back_as_they_were_and_are_not_readable_in_between() -> None:
    keys = parse_keys(f"k1:{OLD}")
    sealed = await seal_credentials(keys, "acme", "crm", SECRET)
    assert b"very-secret" not in sealed.text
    assert await open_credentials(keys, "acme", "crm", sealed) == SECRET


@pytest.mark.parametrize(("org", "name"), [("rival", "crm"), ("acme", "other")])
async def test_what_is_copied_to_another_org_or_connection_does_not_open(
    org: str, name: str
) -> None:
    keys = parse_keys(f"k1:{OLD}")
    sealed = await seal_credentials(keys, "acme", "crm", SECRET)
    with pytest.raises(Internal):
        await open_credentials(keys, org, name, sealed)


async def test_what_was_changed_does_not_open() -> None:
    keys = parse_keys(f"k1:{OLD}")
    sealed = await seal_credentials(keys, "acme", "crm", SECRET)
    changed = replace(sealed, text=sealed.text[:-1] + bytes([sealed.text[-1] ^ 1]))
    with pytest.raises(Internal):
        await open_credentials(keys, "acme", "crm", changed)


async def test_a_replaced_key_still_opens_and_the_new_one_seals() -> None:
    sealed = await seal_credentials(parse_keys(f"k1:{OLD}"), "acme", "crm", SECRET)
    both = parse_keys(f"k2:{NEW}, k1:{OLD}")
    assert await open_credentials(both, "acme", "crm", sealed) == SECRET
    assert (await seal_credentials(both, "acme", "crm", SECRET)).key_id == "k2"


async def test_without_its_key_nothing_opens_and_the_error_names_the_key_alone() -> None:
    sealed = await seal_credentials(parse_keys(f"k1:{OLD}"), "acme", "crm", SECRET)
    with pytest.raises(Internal, match="k1") as caught:
        await open_credentials(parse_keys(f"k2:{NEW}"), "acme", "crm", sealed)
    assert "very-secret" not in str(caught.value)


async def test_two_seals_of_the_same_differ() -> None:
    keys = parse_keys(f"k1:{OLD}")
    first, second = [await seal_credentials(keys, "acme", "crm", SECRET) for _ in range(2)]
    assert first.text != second.text


async def test_without_a_key_credentials_are_refused_and_what_to_do_is_said() -> None:
    with pytest.raises(FailedPrecondition, match="CREDENTIAL_KEYS") as caught:
        await seal_credentials(parse_keys(""), "acme", "crm", SECRET)
    assert caught.value.reason is Reason.CONFIG_INVALID


@pytest.mark.parametrize(
    "text", ["k1:short", f":{OLD}", f"k1:{OLD},k1:{NEW}", "k1:!!", f"k1:{OLD[:-8]}"]
)
def test_a_key_that_cannot_be_used_stops_the_service_and_is_not_printed(text: str) -> None:
    with pytest.raises(FailedPrecondition) as caught:
        parse_keys(text)
    assert OLD not in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "fields", "headers"),
    [
        ("none", {}, {}),
        ("fields", {"a": "b"}, {}),
        ("bearer", {"token": "t"}, {"authorization": "Bearer t"}),
        ("basic", {"username": "u", "password": "p"}, {"authorization": "Basic dTpw"}),
        ("header", {"name": "X-Key", "value": "v"}, {"x-key": "v"}),
        ("bearer", {}, {}),
    ],
)
def test_each_scheme_authorises_calls_in_its_way(
    scheme: str, fields: dict[str, str], headers: dict[str, str]
) -> None:
    assert authorising(scheme, fields) == headers
