"""Compiles what a node says of its effect: how its call may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure_machine.definition.compiling import NodeCompiler, mapping
from perdure_machine.definition.model import Kind
from perdure_machine.definition.outside import CALLS, EffectKind
from perdure_machine.expressions import Template
from perdure_machine.expressions.values import Json

DECLARED = tuple(EffectKind)
REPEATABLE_METHODS = ("GET", "HEAD")
_HINTS = {"http": "add `lookup: {url: ...}`", "grpc": "add `lookup: {method: ...}`"}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a node says of its effect; `keep` in seconds."""

    kind: EffectKind
    keep: float | None = None


def effect(compiler: NodeCompiler, kind: str, effect: Json, method: str = "") -> Declared:
    """Compile the effect of a node of `kind` whose call is made by the HTTP `method`, if by one."""
    members = mapping(effect)
    named = members.get("kind") if members else effect
    if not isinstance(named, str) or named not in DECLARED:
        return Declared(EffectKind.REPEATABLE if method in REPEATABLE_METHODS else EffectKind.NONE)
    declared = EffectKind(named)
    _check(compiler, kind, declared, is_looked_up="lookup" in members)
    keep = compiler.seconds(members, kind, "effect", "keep") if members else None
    return Declared(declared, keep)


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


def _check(compiler: NodeCompiler, kind: str, declared: EffectKind, *, is_looked_up: bool) -> None:
    path = (*compiler.path, kind, "effect")
    if declared is EffectKind.RECONCILE and not is_looked_up:
        reason = "it says how to look up whether the call was performed"
        compiler.problems.add(path, reason, _HINTS[kind])
    if declared in (EffectKind.NONE, EffectKind.REPEATABLE) and is_looked_up:
        reason = f"a call of kind `{declared}` is not looked up"
        compiler.problems.add((*path, "lookup"), reason, "write `kind: reconcile`")
