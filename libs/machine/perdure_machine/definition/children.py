"""Compiles the nodes that start and cancel other runs."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.compiling import NodeCompiler
from perdure_machine.definition.model import CancelRun, ChildRun
from perdure_machine.expressions.values import Json
from perdure_machine.states import ParentEnd


def child_run(compiler: NodeCompiler, body: Mapping[str, Json]) -> ChildRun:
    """Compile a node that starts a child."""
    wait = body.get("wait") is not False
    default = ParentEnd.CANCEL if wait else ParentEnd.ABANDON
    rule = body.get("on_parent_end")
    known = isinstance(rule, str) and rule in set(ParentEnd)
    return ChildRun(
        workflow=compiler.template(body.get("workflow"), "run", "workflow"),
        version=compiler.optional(body, "run", "version"),
        input=compiler.optional(body, "run", "input"),
        wait=wait,
        on_parent_end=ParentEnd(str(rule)) if known else default,
    )


def cancel_run(compiler: NodeCompiler, body: Mapping[str, Json]) -> CancelRun:
    """Compile a node that has another run cancelled."""
    return CancelRun(
        run=compiler.template(body.get("run"), "cancel_run", "run"),
        reason=compiler.optional(body, "cancel_run", "reason"),
    )
