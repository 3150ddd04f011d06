"""Compiles what a node says of its effect: how its call may be repeated, and looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure_machine.definition.compiling import NodeCompiler, mapping
from perdure_machine.definition.model import Kind
from perdure_machine.definition.outside import CALLS, EffectKind, Lookup
from perdure_machine.expressions import Template
from perdure_machine.expressions.values import Json

DECLARED = tuple(EffectKind)
REPEATABLE_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a node says of its effect; `keep` in seconds."""

    kind: EffectKind
    keep: float | None = None
    lookup: Lookup | None = None


def effect(compiler: NodeCompiler, kind: str, effect: Json, method: str = "") -> Declared:
    """Compile the effect of a node of `kind` whose call is made by `method`."""
    members = mapping(effect)
    named = members.get("kind") if members else effect
    if not isinstance(named, str) or named not in DECLARED:
        return Declared(EffectKind.REPEATABLE if method in REPEATABLE_METHODS else EffectKind.NONE)
    lookup = _lookup(compiler, kind, members["lookup"]) if "lookup" in members else None
    declared = EffectKind(named)
    _check(compiler, kind, declared, lookup)
    keep = compiler.seconds(members, kind, "effect", "keep") if members else None
    return Declared(declared, keep, lookup)


def effect_key(compiler: NodeCompiler, kind: Kind, node: Mapping[str, Json]) -> Template | None:
    """Compile what names the effect of a node's call in its key, None where nothing does."""
    if "effect_key" not in node:
        return None
    path = (*compiler.path, "effect_key")
    if not isinstance(kind, CALLS):
        reason = "only the call of an `http` or `grpc` node is named so"
        compiler.problems.add(path, reason, "a handler names its effects itself")
    elif kind.effect is EffectKind.REPEATABLE:
        reason = "the effect of a call that may be repeated at will is not recorded"
        compiler.problems.add(path, reason, "remove it, or write `effect`")
    return compiler.optional(node, "effect_key")


def _lookup(compiler: NodeCompiler, kind: str, given: Json) -> Lookup:
    body, where = mapping(given), (kind, "effect", "lookup")
    return Lookup(
        method=str(body.get("method", "GET")),
        url=compiler.template(body.get("url"), *where, "url"),
        headers=compiler.templates(body.get("headers"), *where, "headers"),
        query=compiler.templates(body.get("query"), *where, "query"),
        body=compiler.optional(body, *where, "body"),
        found=compiler.condition(body, *where, "found"),
        output=compiler.optional(body, *where, "output"),
    )


def _check(compiler: NodeCompiler, kind: str, declared: EffectKind, lookup: Lookup | None) -> None:
    path = (*compiler.path, kind, "effect")
    if kind == "grpc" and (lookup is not None or declared is EffectKind.RECONCILE):
        compiler.problems.add(path, "a call of a gRPC method cannot be looked up", "use `http`")
    elif declared is EffectKind.RECONCILE and lookup is None:
        reason = "it says how to look up whether the call was performed"
        compiler.problems.add(path, reason, "add `lookup: {url: ...}`")
    if declared in (EffectKind.NONE, EffectKind.REPEATABLE) and lookup is not None:
        reason = f"a call of kind `{declared}` is not looked up"
        compiler.problems.add((*path, "lookup"), reason, "write `kind: reconcile`")
