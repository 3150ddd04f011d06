"""Compiles what directs a run: joins, switches, failures caught and made, ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perdure_machine.definition.compiling import NodeCompiler, listed, mapping, texts
from perdure_machine.definition.model import Case, Fail, Finish, Handler, Join, JoinKind, Switch
from perdure_machine.expressions.values import Json

_OUTCOMES = ("then", "output", "fail")
_LIMITED = (JoinKind.ANY, JoinKind.QUORUM)


def join(compiler: NodeCompiler, node: Mapping[str, Json], needs: int) -> Join:
    """Compile a node's join over `needs` nodes."""
    found = _join(compiler, node.get("join"), needs)
    if node.get("cancel_rest") is not True:
        return found
    if not has_first(found):
        path, hint = (*compiler.path, "cancel_rest"), "join: any, or a quorum"
        compiler.problems.add(path, "this join waits for every need, so nothing is left", hint)
    return replace(found, cancels_rest=True)


def _join(compiler: NodeCompiler, value: Json, needs: int) -> Join:
    path = (*compiler.path, "join")
    if value is not None and needs == 0:
        compiler.problems.add(path, "no edge leads to this node, so there is nothing to join")
    if isinstance(value, dict) and "quorum" in value:
        _check_quorum(compiler, value["quorum"], needs)
        return Join(JoinKind.QUORUM, compiler.template(value["quorum"], "join", "quorum"))
    known = isinstance(value, str) and value in set(JoinKind)
    return Join(JoinKind(str(value))) if known else Join()


def has_first(node_join: Join) -> bool:
    """Tell whether expressions of a node with this join may read `join.first`."""
    return node_join.kind in _LIMITED


def switch(compiler: NodeCompiler, body: Mapping[str, Json]) -> Switch:
    """Compile a switch."""
    cases = []
    for index, case in enumerate(listed(body.get("cases"))):
        when = compiler.condition(case, "switch", "cases", index, "when")
        if when is not None:
            cases.append(Case(when, tuple(texts(case.get("then")))))
    return Switch(tuple(cases), tuple(texts(body.get("else"))))


def fail(compiler: NodeCompiler, body: Mapping[str, Json], *where: str | int) -> Fail:
    """Compile the failure that stands at `where`."""
    return Fail(
        code=compiler.template(body.get("code"), *where, "code"),
        message=compiler.optional(body, *where, "message"),
        output=compiler.optional(body, *where, "output"),
    )


def finish(compiler: NodeCompiler, body: Mapping[str, Json]) -> Finish:
    """Compile the end of a run."""
    return Finish(
        compiler.optional(body, "finish", "output"), compensate=body.get("compensate") is True
    )


def handlers(compiler: NodeCompiler, value: Json, *, picks: bool) -> tuple[Handler, ...]:
    """Compile the `on_failure` of a node; `picks`: of a switch, which has edges and no output."""
    for index, handler in enumerate(listed(value)):
        if picks and "output" in handler:
            path = (*compiler.path, "on_failure", index, "output")
            reason = "a switch has no output that another could stand in for"
            compiler.problems.add(path, reason, "take edges with `then`")
    return tuple(
        _handler(compiler, handler, index, is_last=index == len(listed(value)) - 1)
        for index, handler in enumerate(listed(value))
    )


def _handler(
    compiler: NodeCompiler, handler: Mapping[str, Json], index: int, *, is_last: bool
) -> Handler:
    path = (*compiler.path, "on_failure", index)
    if sum(outcome in handler for outcome in _OUTCOMES) != 1:
        compiler.problems.add(path, "it has exactly one of `then`, `output` and `fail`")
    if "when" not in handler and not is_last:
        compiler.problems.add(path, "it has no `when`, so those after it never count")
    where = ("on_failure", index)
    return Handler(
        when=compiler.condition(handler, *where, "when"),
        then=tuple(texts(handler["then"])) if "then" in handler else None,
        output=compiler.optional(handler, *where, "output"),
        fail=fail(compiler, mapping(handler["fail"]), *where, "fail")
        if "fail" in handler
        else None,
    )


def _check_quorum(compiler: NodeCompiler, quorum: Json, needs: int) -> None:
    if isinstance(quorum, int) and quorum > needs:
        reason = f"{quorum} of {needs} nodes can never end well"
        compiler.problems.add((*compiler.path, "join", "quorum"), reason)
