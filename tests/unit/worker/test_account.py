"""The account that a call is made under: nobody but its provider sees what proves it."""

import json
from typing import Any

import pytest
from perdure_contracts.internal.v1.dispatch_pb2 import ConnectionGrant
from perdure_worker.executors.account import hidden, method_under, under
from perdure_worker.executors.grpc_request import GrpcRequest, read_call
from perdure_worker.executors.http_request import HttpRequest, RequestInvalid, read_request
from perdure_worker.outcome import Completed, ErrorClass, Failed

SECRET = "Bearer abcdef123456"
SHOP = ConnectionGrant(
    name="shop",
    generation=1,
    base_url="https://shop.example/v1/",
    headers={"Authorization": SECRET},
    credentials={"refresh": "refresh-me"},
)
ANYWHERE = ConnectionGrant(name="any", headers={"Authorization": SECRET})


def request(url: str, **more: Any) -> HttpRequest:
    return read_request(json.dumps({"method": "GET", "url": url, **more}).encode(), SHOP.base_url)


def call(target: str, **more: Any) -> GrpcRequest:
    document = {"target": target, "service": "s", "method": "M", **more}
    return read_call(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("charges/7?x=1", "https://shop.example/v1/charges/7?x=1"),
        ("/v2/charges", "https://shop.example/v2/charges"),
        ("https://shop.example:443/", "https://shop.example:443/"),
    ],
)
def test_a_relative_url_is_relative_to_the_connection(url: str, full: str) -> None:
    found = under(request(url), SHOP)
    assert str(found.url) == full.replace(":443", "")
    assert found.headers["Authorization"] == SECRET


@pytest.mark.parametrize(
    "url",
    [
        "https://thief.example/",
        "//thief.example/",
        "http://shop.example/",
        "https://shop.example:8443/",
        "https://shop.example.thief.example/",
    ],
)
def test_credentials_are_not_carried_to_where_the_connection_does_not_lead(url: str) -> None:
    with pytest.raises(RequestInvalid, match="does not lead"):
        under(request(url), SHOP)


def test_a_connection_without_an_address_proves_itself_where_the_definition_calls() -> None:
    found = under(request("https://one.example/"), ANYWHERE)
    assert found.headers == {"Authorization": SECRET}


def test_a_header_that_the_definition_sets_is_its_own() -> None:
    found = under(request("a", headers={"authorization": "mine"}), SHOP)
    assert found.headers == {"authorization": "mine"}


def test_without_a_connection_nothing_is_added() -> None:
    plain = request("https://one.example/")
    assert under(plain, ConnectionGrant()) == plain


def test_a_method_is_called_under_the_account_too() -> None:
    found = method_under(call("shop.example:443", metadata={"x": "1"}), SHOP)
    assert found.metadata == {"authorization": SECRET, "x": "1"}


@pytest.mark.parametrize("more", [{"plaintext": True}, {"target": "thief.example:443"}])
def test_a_method_elsewhere_gets_no_credentials(more: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid, match="does not lead"):
        method_under(call(**{"target": "shop.example:443", **more}), SHOP)


def test_what_the_other_side_repeats_of_the_credentials_is_hidden() -> None:
    details = json.dumps({"body": f"bad token abcdef123456, {SECRET}, refresh-me"}).encode()
    failure = Failed(ErrorClass.PERMANENT, "HTTP_400", f"said {SECRET}", details)
    found = hidden(failure, SHOP)
    assert isinstance(found, Failed)
    assert "abcdef" not in found.message + found.details.decode()
    assert "refresh-me" not in found.details.decode()
    assert json.loads(found.details)["body"] == "bad token ***, ***, ***"


def test_an_output_stays_as_the_provider_gave_it() -> None:
    assert hidden(Completed(b'"abcdef123456"'), SHOP) == Completed(b'"abcdef123456"')
