"""What a worker is told of a call, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from perdure_machine.definition.outside import Grpc, Lookup
from perdure_machine.expressions import Scope, Template, render
from perdure_machine.payload import object_bytes


def grpc_input(kind: Grpc, scope: Scope) -> bytes:
    """Return the call of a gRPC method. Raises `ExpressionFailed`."""
    members = {
        "target": render(kind.target, scope),
        "service": json.dumps(kind.service).encode(),
        "method": json.dumps(kind.method).encode(),
    }
    if kind.request is not None:
        members["request"] = render(kind.request, scope)
    if kind.metadata:
        members["metadata"] = rendered(kind.metadata, scope)
    if kind.plaintext:
        members["plaintext"] = b"true"
    return object_bytes(members)


def lookup_input(lookup: Lookup, scope: Scope) -> bytes:
    """Return the request that finds out whether a call was performed. Raises `ExpressionFailed`."""
    members = {"method": json.dumps(lookup.method).encode(), "url": render(lookup.url, scope)}
    if lookup.headers:
        members["headers"] = rendered(lookup.headers, scope)
    if lookup.query:
        members["query"] = rendered(lookup.query, scope)
    if lookup.body is not None:
        members["body"] = render(lookup.body, scope)
    return object_bytes(members)


def rendered(templates: Mapping[str, Template], scope: Scope) -> bytes:
    """Return the object of what these templates give. Raises `ExpressionFailed`."""
    return object_bytes({name: render(template, scope) for name, template in templates.items()})
