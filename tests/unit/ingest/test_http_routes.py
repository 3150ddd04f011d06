"""Every public call has a route, and a path names one call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.api.annotations_pb2 import http  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from perdure_contracts.v1 import options_pb2
from perdure_ingest.http.contracts import public_files
from perdure_ingest.http.description import description
from perdure_ingest.http.events import PLACES
from perdure_ingest.http.fields import holds_payloads
from perdure_ingest.http.routes import Route, Routes

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "openapi.json"

BINARY = {"perdure.v1.Workflow.digest"}
"""Fields whose bytes are neither JSON nor text, and stand in base64."""


def public_messages() -> Iterator[Descriptor]:
    for file in public_files():
        yield from file.message_types_by_name.values()


def test_every_public_call_has_a_route() -> None:
    methods = [
        method
        for file in public_files()
        for service in file.services_by_name.values()
        for method in service.methods
    ]
    without = [m.full_name for m in methods if http not in m.GetOptions().Extensions]
    assert len(methods) > 40
    assert without == []


def test_all_public_bytes_say_how_they_stand_in_json() -> None:
    unsaid = {
        field.full_name
        for message in public_messages()
        for field in message.fields
        if field.type == FieldDescriptor.TYPE_BYTES
        and not field.GetOptions().Extensions[options_pb2.bytes_form]
    }
    assert unsaid == BINARY


def test_routes_are_under_v1_and_no_path_holds_a_person_or_a_secret() -> None:
    for route in Routes(public_files()).all:
        assert route.path.startswith("/v1/")
        assert not {"subject", "credentials", "callback"} & set(route.variables)


def test_payloads_stand_one_to_a_field_and_in_no_map() -> None:
    for message in public_messages():
        for field in message.fields:
            if field.GetOptions().Extensions[options_pb2.bytes_form]:
                assert field.type == FieldDescriptor.TYPE_BYTES
                assert not field.is_repeated, field.full_name
            entry = field.message_type
            if entry is not None and entry.GetOptions().map_entry:
                value = entry.fields_by_name["value"].message_type
                assert value is None or not holds_payloads(value), field.full_name


def test_each_stream_has_ids_to_come_back_by() -> None:
    streams = {route.method: route for route in Routes(public_files()).all if route.streams}
    assert streams.keys() == PLACES.keys()
    for method, place in PLACES.items():
        assert place.request in streams[method].request.fields_by_name


def found(verb: str, path: str) -> tuple[str, dict[str, bytes]]:
    match = Routes(public_files()).find(verb, path)
    assert not isinstance(match, frozenset), match
    route, values = match
    return route.method.rpartition("/")[2], values


@pytest.mark.parametrize(
    ("verb", "path", "method", "values"),
    [
        ("POST", "/v1/runs", "StartRun", {}),
        ("GET", "/v1/runs/x", "GetRun", {"run_id": b"x"}),
        ("GET", "/v1/runs/x/steps/7/scopes", "ListScopes", {"run_id": b"x", "step": b"7"}),
        ("POST", "/v1/workflows/validate", "ValidateWorkflow", {}),
        ("GET", "/v1/workflows/validate", "GetWorkflow", {"name": b"validate"}),
        ("GET", "/v1/workflows/a%2Fb%20c", "GetWorkflow", {"name": b"a/b c"}),
        ("GET", "/v1/workflows/%ff", "GetWorkflow", {"name": b"\xff"}),
        ("GET", "/v1/runs/x/effects/a/b%2Fc", "GetEffect", {"run_id": b"x", "key": b"a/b/c"}),
    ],
)
def test_a_path_names_a_call_and_fields(
    verb: str, path: str, method: str, values: dict[str, bytes]
) -> None:
    assert found(verb, path) == (method, values)


@pytest.mark.parametrize(
    ("verb", "path", "others"),
    [
        ("DELETE", "/v1/runs/x", {"GET"}),
        ("PATCH", "/v1/connections/c", {"GET", "PUT", "DELETE"}),
        ("GET", "/v1/nothing", set[str]()),
        ("GET", "/v1/runs/", set[str]()),
        ("GET", "/v1/runs/x/", set[str]()),
        ("GET", "/v1/runs/x/effects/", set[str]()),
        ("GET", "/", set[str]()),
        ("OPTIONS", "*", set[str]()),
    ],
)
def test_a_path_without_the_method_names_the_methods_it_has(
    verb: str, path: str, others: set[str]
) -> None:
    assert Routes(public_files()).find(verb, path) == frozenset(others)


def test_two_calls_of_one_path_are_refused() -> None:
    with pytest.raises(ValueError, match="share /v1/"):
        Routes([*public_files(), *public_files()])


def test_each_route_is_found_by_its_own_path() -> None:
    routes = Routes(public_files())
    for route in routes.all:
        match = routes.find(route.verb, _filled(route))
        assert not isinstance(match, frozenset)
        assert match[0] == route


def _filled(route: Route) -> str:
    return "".join(f"/{segment.literal or 'x'}" for segment in route.segments)


def test_the_document_that_is_served_describes_every_route() -> None:
    assert DOCUMENT.read_bytes() == description()
    paths = json.loads(description())["paths"]
    described = {(verb.upper(), path) for path, found in paths.items() for verb in found}
    routes = Routes(public_files()).all
    assert described == {(route.verb, route.path.replace("=**}", "}")) for route in routes}
    operations = [operation for found in paths.values() for operation in found.values()]
    assert all(operation["description"] for operation in operations)
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
