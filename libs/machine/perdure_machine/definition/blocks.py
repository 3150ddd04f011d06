"""Compiles the nodes that hold a sub-graph: `for_each`, `repeat` and `group`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perdure_machine.definition.compiling import NodeCompiler, mapping
from perdure_machine.definition.model import (
    Block,
    Carried,
    ForEach,
    Group,
    Repeat,
    RetryRule,
    Tolerance,
)
from perdure_machine.expressions import Template
from perdure_machine.expressions.reads import CURSOR, ROOTS
from perdure_machine.expressions.values import Json

KINDS = ("for_each", "repeat", "group")
DEFAULT_PASSES = 1_000
"""Most passes of a `repeat` that does not say how many."""

_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(ROOTS) | {"signal", "in", "as", "true", "false", "null"}
_BACKOFF = RetryRule(on=frozenset(), max=0, base=1.0, factor=2.0, cap=300.0)


def block(
    compiler: NodeCompiler, inside: NodeCompiler, name: str, body: Mapping[str, Json]
) -> Block:
    """Compile the node; `inside` compiles what is evaluated in its scopes."""
    match name:
        case "for_each":
            return _for_each(compiler, inside, body)
        case "repeat":
            return _repeat(compiler, inside, body)
        case _:
            return Group()


def graph_output(inside: NodeCompiler, name: str, body: Mapping[str, Json]) -> Template | None:
    """Compile the output of each scope of the node."""
    return inside.optional(body, name, "output")


def alias_of(name: str, body: Json | Mapping[str, Json]) -> str:
    """Return what a node calls its item besides `item`, empty for nothing."""
    return str(body.get("as", "")) if isinstance(body, Mapping) and name == "for_each" else ""


def page_of(body: Mapping[str, Json]) -> Json:
    """Return the node that gets a page of items, as a document would have it."""
    source = mapping(body.get("source"))
    given = source.get("input", {"cursor": f"${{{CURSOR}}}"})
    task: Json = {"handler": source.get("handler"), "input": given}
    options = ("lane", "retry", "timeout")
    return {"task": task, **{name: source[name] for name in options if name in source}}


def is_alias(text: str) -> bool:
    """Tell whether an item may be called so: expressions must know it for a name of its own."""
    return _NAME.fullmatch(text) is not None and text not in _RESERVED


def _for_each(compiler: NodeCompiler, inside: NodeCompiler, body: Mapping[str, Json]) -> ForEach:
    alias = alias_of("for_each", body)
    if alias and not is_alias(alias):
        path = (*compiler.path, "for_each", "as")
        compiler.problems.add(path, f"an item cannot be called '{alias}'", "a name such as order")
    if ("in" in body) == ("source" in body):
        path = (*compiler.path, "for_each")
        compiler.problems.add(path, "it has exactly one of `in` and `source`")
    return ForEach(
        items=compiler.optional(body, "for_each", "in"),
        alias=alias,
        concurrency=compiler.optional(body, "for_each", "concurrency"),
        batch=_whole(body.get("batch"), 1),
        failures=_tolerance(mapping(body.get("failures"))),
        stop_when=inside.condition(body, "for_each", "stop_when"),
    )


def _tolerance(body: Mapping[str, Json]) -> Tolerance:
    percent = body.get("max_percent")
    return Tolerance(
        max=_whole(body.get("max"), 0),
        max_percent=float(percent) if isinstance(percent, int | float) else None,
        stop=body.get("then", "stop") == "stop",
    )


def _repeat(compiler: NodeCompiler, inside: NodeCompiler, body: Mapping[str, Json]) -> Repeat:
    path = (*compiler.path, "repeat")
    if ("until" in body) == ("while" in body):
        compiler.problems.add(path, "it has exactly one of `until` and `while`")
    if "every" in body and "backoff" in body:
        compiler.problems.add(path, "it has at most one of `every` and `backoff`")
    return Repeat(
        until=inside.condition(body, "repeat", "until"),
        while_=inside.condition(body, "repeat", "while"),
        max=_whole(body.get("max"), DEFAULT_PASSES),
        every=inside.optional(body, "repeat", "every"),
        backoff=_backoff(compiler, mapping(body["backoff"])) if "backoff" in body else None,
        exhausted_is_done=body.get("on_exhausted") == "done",
        keep=_whole(body["keep"], 0) if "keep" in body else None,
        carry={
            name: Carried(
                init=compiler.template(mapping(value).get("init"), "repeat", "carry", name, "init"),
                next=inside.template(mapping(value).get("next"), "repeat", "carry", name, "next"),
            )
            for name, value in mapping(body.get("carry")).items()
        },
    )


def _backoff(compiler: NodeCompiler, body: Mapping[str, Json]) -> RetryRule:
    base = compiler.seconds(body, "repeat", "backoff", "base")
    cap = compiler.seconds(body, "repeat", "backoff", "cap")
    factor = body.get("factor")
    return RetryRule(
        on=frozenset(),
        max=0,
        base=_BACKOFF.base if base is None else base,
        factor=float(factor) if isinstance(factor, int | float) else _BACKOFF.factor,
        cap=_BACKOFF.cap if cap is None else cap,
    )


def _whole(value: Json, default: int) -> int:
    return value if isinstance(value, int) else default
