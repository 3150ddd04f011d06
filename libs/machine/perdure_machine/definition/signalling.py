"""Compiles what waits for signals and what sends them."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.compiling import NodeCompiler
from perdure_machine.definition.model import Emit, Kind, Signal
from perdure_machine.expressions import Template
from perdure_machine.expressions.values import Json

_TARGETS = ("key", "run")


def signal(compiler: NodeCompiler, body: Mapping[str, Json]) -> Signal:
    """Compile a wait for a signal."""
    return Signal(
        signal=str(body.get("name", "")),
        key=compiler.optional(body, "signal", "key"),
        filter=compiler.condition(body, "signal", "filter"),
        deadline=_deadline(compiler, body),
    )


def emit(compiler: NodeCompiler, body: Mapping[str, Json]) -> Emit:
    """Compile a signal to others."""
    if sum(target in body for target in _TARGETS) != 1:
        path = (*compiler.path, "emit")
        compiler.problems.add(path, "it has exactly one of `key` and `run`")
    return Emit(
        signal=str(body.get("name", "")),
        key=compiler.optional(body, "emit", "key"),
        run=compiler.optional(body, "emit", "run"),
        data=compiler.optional(body, "emit", "data"),
    )


def _deadline(compiler: NodeCompiler, body: Mapping[str, Json]) -> Template | None:
    value = body.get("deadline")
    template = compiler.optional(body, "signal", "deadline")
    if (
        template is not None
        and template.constant is not None
        and isinstance(value, str | int | float)
    ):
        compiler.duration(value, ("signal", "deadline"))
    return template


def check_deadline(compiler: NodeCompiler, kind: Kind, node: Mapping[str, Json]) -> None:
    """Note a signal that has two deadlines."""
    if isinstance(kind, Signal) and kind.deadline is not None and "deadline" in node:
        path = (*compiler.path, "deadline")
        compiler.problems.add(path, "the signal has a deadline of its own", "keep one of them")
