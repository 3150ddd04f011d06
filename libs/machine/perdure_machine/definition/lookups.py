"""Compiles what a node says of finding out whether its call was performed."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.compiling import NodeCompiler, mapping
from perdure_machine.definition.outside import GrpcLookup, HttpLookup
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

_OF_HTTP: Mapping[str, Json] = {"method": "GET", "url": None, "query": None, "body": None}
_OF_GRPC: Mapping[str, Json] = {"service": None, "method": None, "request": None}
"""What is asked for, by member, with what stands for one that is left out."""


def http_lookup(compiler: NodeCompiler, call: Mapping[str, Json]) -> HttpLookup | None:
    """Compile the look-up of an `http` node whose call is `call`, None where it has none."""
    given = _given(call)
    if given is None:
        return None
    where: Path = ("http", "effect", "lookup")
    _check_differs(compiler, call, given, _OF_HTTP, where)
    return HttpLookup(
        method=str(given.get("method", "GET")),
        url=compiler.template(given.get("url"), *where, "url"),
        headers=compiler.templates(given.get("headers"), *where, "headers"),
        query=compiler.templates(given.get("query"), *where, "query"),
        body=compiler.optional(given, *where, "body"),
        found=compiler.condition(given, *where, "found"),
        output=compiler.optional(given, *where, "output"),
    )


def grpc_lookup(compiler: NodeCompiler, call: Mapping[str, Json]) -> GrpcLookup | None:
    """Compile the look-up of a `grpc` node whose call is `call`, None where it has none."""
    given = _given(call)
    if given is None:
        return None
    where: Path = ("grpc", "effect", "lookup")
    asked = {"service": call.get("service"), **given}
    _check_differs(compiler, call, asked, _OF_GRPC, where)
    return GrpcLookup(
        service=str(asked["service"]),
        method=str(given.get("method", "")),
        request=compiler.optional(given, *where, "request"),
        metadata=compiler.templates(given.get("metadata"), *where, "metadata"),
        found=compiler.condition(given, *where, "found"),
        output=compiler.optional(given, *where, "output"),
    )


def _given(call: Mapping[str, Json]) -> dict[str, Json] | None:
    effect = mapping(call.get("effect"))
    return mapping(effect["lookup"]) if "lookup" in effect else None


def _check_differs(
    compiler: NodeCompiler,
    call: Mapping[str, Json],
    asked: Mapping[str, Json],
    members: Mapping[str, Json],
    where: Path,
) -> None:
    """Note a look-up that asks for what the call itself asks for."""
    if all(asked.get(name, left) == call.get(name, left) for name, left in members.items()):
        reason, hint = "it would make the call again", "ask for something that changes nothing"
        compiler.problems.add((*compiler.path, *where), reason, hint)
