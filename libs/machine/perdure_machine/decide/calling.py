"""What a worker is told of an outside call, as JSON, and the expressions that it is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping

from perdure_machine.definition.outside import Call, Grpc, GrpcLookup, Http, HttpLookup
from perdure_machine.expressions import Expression, Scope, Template, render
from perdure_machine.payload import object_bytes

_Members = dict[str, bytes]


def call_input(kind: Call, scope: Scope) -> bytes:
    """Return what a worker needs to make a call, and to look it up. Raises `ExpressionFailed`."""
    members = _http(kind, scope) if isinstance(kind, Http) else _grpc(kind, scope)
    match kind.lookup:
        case HttpLookup() as lookup:
            members["lookup"] = object_bytes(_request(lookup, scope))
        case GrpcLookup() as lookup:
            members["lookup"] = object_bytes(_method(lookup, scope))
    return object_bytes(members)


def call_expressions(kind: Call) -> list[Expression | Template | None]:
    """Return the expressions of a call that are evaluated when its node begins."""
    own = [kind.target, *_in_method(kind)] if isinstance(kind, Grpc) else _in_request(kind)
    match kind.lookup:
        case HttpLookup() as lookup:
            return [*own, *_in_request(lookup)]
        case GrpcLookup() as lookup:
            return [*own, *_in_method(lookup)]
    return [*own]


def _in_request(asked: Http | HttpLookup) -> list[Template | None]:
    return [asked.url, asked.body, *asked.headers.values(), *asked.query.values()]


def _in_method(asked: Grpc | GrpcLookup) -> list[Template | None]:
    return [asked.request, *asked.metadata.values()]


def _http(kind: Http, scope: Scope) -> _Members:
    members = _request(kind, scope)
    if kind.success:
        members["success"] = json.dumps(sorted(kind.success)).encode()
    if kind.timeouts:
        members["timeouts"] = json.dumps(dict(kind.timeouts)).encode()
    if kind.redirects is not None:
        members["redirects"] = str(kind.redirects).encode()
    return members


def _request(asked: Http | HttpLookup, scope: Scope) -> _Members:
    members = {"method": _text(asked.method), "url": render(asked.url, scope)}
    if asked.headers:
        members["headers"] = _rendered(asked.headers, scope)
    if asked.query:
        members["query"] = _rendered(asked.query, scope)
    if asked.body is not None:
        members["body"] = render(asked.body, scope)
    return members


def _grpc(kind: Grpc, scope: Scope) -> _Members:
    members = {"target": render(kind.target, scope), **_method(kind, scope)}
    if kind.plaintext:
        members["plaintext"] = b"true"
    return members


def _method(asked: Grpc | GrpcLookup, scope: Scope) -> _Members:
    members = {"service": _text(asked.service), "method": _text(asked.method)}
    if asked.request is not None:
        members["request"] = render(asked.request, scope)
    if asked.metadata:
        members["metadata"] = _rendered(asked.metadata, scope)
    return members


def _rendered(templates: Mapping[str, Template], scope: Scope) -> bytes:
    return object_bytes({name: render(template, scope) for name, template in templates.items()})


def _text(value: str) -> bytes:
    return json.dumps(value).encode()
