"""Write the OpenAPI document of HTTP/JSON, from the protos' routes, messages and comments.

    python -m tools.write_openapi             # write it
    python -m tools.write_openapi --check     # fail if it is not what the protos say

It is written twice: for readers below `docs/`, and into ingest, which serves it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from perdure_contracts.v1.options_pb2 import BYTES_FORM_UNSPECIFIED
from perdure_ingest.http.contracts import public_files
from perdure_ingest.http.events import LAST_ID_HEADER
from perdure_ingest.http.fields import by_json_name, form_of, is_message
from perdure_ingest.http.requests import MAX_TIMEOUT_SECONDS, TEXT_TYPES, TIMEOUT_HEADER
from perdure_ingest.http.routes import Route, routes_of

from tools.openapi_schemas import Schema, Schemas
from tools.proto_comments import ROOT, comments

FILES = (
    ROOT / "docs" / "reference" / "openapi.json",
    ROOT / "services" / "ingest" / "perdure_ingest" / "http" / "openapi.json",
)
JSON = "application/json"

ABOUT = (
    "Perdure, a durable workflow engine: the calls of its gRPC services as HTTP/JSON. Members have "
    "the names of the protos; integers of 64 bits are strings. A payload stands in a document as "
    "the JSON that it is, byte for byte, both ways. Errors are a google.rpc.Status."
)
STATUS: Schema = {
    "type": "object",
    "description": "Why a call failed, google.rpc.Status.",
    "properties": {
        "code": {"type": "integer", "description": "The gRPC code."},
        "message": {"type": "string", "description": "What happened, for people."},
        "details": {
            "type": "array",
            "description": "An ErrorInfo with the reason, for programs; a BadRequest with every "
            "field that is wrong; a RetryInfo with the wait that helps.",
            "items": {
                "type": "object",
                "properties": {"@type": {"type": "string"}},
                "required": ["@type"],
            },
        },
    },
    "required": ["code", "message", "details"],
}
TIMEOUT: Schema = {
    "name": TIMEOUT_HEADER,
    "in": "header",
    "description": "Seconds that the caller gives the call. Absent: what the server allows.",
    "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_SECONDS},
}
LAST_ID: Schema = {
    "name": LAST_ID_HEADER,
    "in": "header",
    "description": "The id of the last event that was seen: the stream goes on after it.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
EVENTS = (
    "Server-sent events: an answer each in `data`, with the `id` to come back by; comments as "
    "signs of life; at last the event `end`, or `error` with a google.rpc.Status."
)


def main() -> int:
    """Write or check; the exit status is 1 if a file that is checked is out of date."""
    text = json.dumps(document(comments()), indent=1, ensure_ascii=False) + "\n"
    if "--check" not in sys.argv[1:]:
        for file in FILES:
            file.write_text(text)
        return 0
    stale = [file for file in FILES if not file.exists() or file.read_text() != text]
    for file in stale:
        print(f"{file.relative_to(ROOT)}\n  is not what the protos say\n  run `make openapi`")
    if not stale:
        print("openapi-check: ok")
    return 1 if stale else 0


def document(texts: dict[str, str]) -> dict[str, Any]:
    """Return the whole document; `texts` are the protos' comments by name."""
    schemas = Schemas(texts)
    schemas.all["Status"] = STATUS
    paths = dict[str, dict[str, Any]]()
    for file in public_files():
        for service in file.services_by_name.values():
            for method in service.methods:
                for number, route in enumerate(routes_of(method)):
                    operation = _operation(route, schemas, texts.get(method.full_name, ""))
                    operation["operationId"] = f"{method.name}{number + 1 if number else ''}"
                    operation["tags"] = [service.name]
                    path = route.path.replace("=**}", "}")
                    paths.setdefault(path, {})[route.verb.lower()] = operation
    services = [service for file in public_files() for service in file.services_by_name.values()]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Perdure", "version": "v1", "description": ABOUT},
        "security": [{"key": []}],
        "tags": [{"name": each.name} | schemas.described(each.full_name) for each in services],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.all.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "parameters": {"Timeout": TIMEOUT, "LastEventId": LAST_ID},
            "responses": {"Failure": _content("The call failed.", JSON, _reference("Status"))},
        },
    }


def _operation(route: Route, schemas: Schemas, text: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": text.partition(". ")[0].rstrip("."),
        "description": text,
        "parameters": _parameters(route, schemas),
    }
    if route.body:
        operation["requestBody"] = _body(route, schemas)
    failure = {"$ref": "#/components/responses/Failure"}
    if route.streams:
        schemas.reference(route.response)
        said = {"type": "string"}
        operation["responses"] = {
            "200": _content(EVENTS, "text/event-stream", said),
            "204": {"description": "It is over, and there is nothing more to come back for."},
            "default": failure,
        }
    else:
        answer = schemas.reference(route.response)
        about = schemas.described(route.response.full_name).get("description", "")
        operation["responses"] = {"200": _content(about, JSON, answer), "default": failure}
    return operation


def _parameters(route: Route, schemas: Schemas) -> list[Schema]:
    fields = by_json_name(route.request)
    found = [
        {"name": name, "in": "path", "required": True, **_parameter(fields[name], schemas)}
        for name in route.variables
    ]
    if route.body != "*":
        taken = {*route.variables, route.body}
        found += [
            {"name": field.name, "in": "query", **_parameter(field, schemas)}
            for field in route.request.fields
            if field.name not in taken and not is_message(field)
        ]
    headers = ["Timeout", *(["LastEventId"] if route.streams else [])]
    return [*found, *({"$ref": f"#/components/parameters/{name}"} for name in headers)]


def _parameter(field: FieldDescriptor, schemas: Schemas) -> Schema:
    schema = schemas.value(field)
    made = {"schema": schema} | schemas.described(field.full_name)
    return made | ({"style": "deepObject", "explode": True} if "object" in schema.values() else {})


def _body(route: Route, schemas: Schemas) -> dict[str, Any]:
    if route.body == "*":
        schema = schemas.object(route.request, without=route.variables, is_request=True)
        return {"required": "required" in schema, "content": {JSON: {"schema": schema}}}
    field = by_json_name(route.request)[route.body]
    if form_of(field) == BYTES_FORM_UNSPECIFIED:
        return {"required": True, "content": {JSON: {"schema": schemas.value(field)}}}
    types = {kind: {"schema": {} if kind == JSON else {"type": "string"}} for kind in TEXT_TYPES}
    return {
        **schemas.described(field.full_name),
        "required": schemas.is_required(field),
        "content": dict(sorted(types.items())),
    }


def _content(description: str, kind: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema}}}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


if __name__ == "__main__":
    sys.exit(main())
