"""What a node's `on_failure` makes of its error: caught with a way on or an output, or uncaught."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from perdure_runtime.errors import clean_text

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import node_scope
from perdure_machine.definition.model import Fail, Handler, Node
from perdure_machine.expressions import (
    Expression,
    ExpressionFailed,
    Scope,
    Template,
    evaluate_bool,
    render,
)
from perdure_machine.node_error import (
    MAX_DETAILS,
    MAX_MESSAGE,
    ErrorClass,
    encode_error,
    expression_error,
    reported_error,
)
from perdure_machine.places import Place
from perdure_machine.replacing import replace
from perdure_machine.view import NodeError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a failure comes to: the edges it takes, or the output it ends well with, or neither."""

    error: NodeError
    taken: tuple[str, ...] | None = None
    output: bytes | None = None

    @property
    def caught(self) -> bool:
        """Whether the run goes on as if nothing had failed."""
        return self.taken is not None or self.output is not None


def judge(draft: Draft, node: Node, place: Place, error: NodeError) -> Verdict:
    """Return what the first handler that matches makes of `error`. Raises `ViewTooNarrow`."""
    if not node.on_failure:
        return Verdict(error)
    scope = node_scope(draft, node, place, handler_expressions(node), error=encode_error(error))
    try:
        for handler in node.on_failure:
            if handler.when is None or evaluate_bool(handler.when, scope):
                return _outcome(handler, scope, error)
    except ExpressionFailed as failure:
        return Verdict(_of_handler(failure, error))
    return Verdict(error)


def made_error(fail: Fail, scope: Scope, node: str) -> NodeError:
    """Return the error that a definition makes. Raises `ExpressionFailed`."""
    code = _text(render(fail.code, scope))
    message = _text(render(fail.message, scope)) if fail.message is not None else ""
    output = render(fail.output, scope) if fail.output is not None else None
    if output is not None and len(output) > MAX_DETAILS:
        message = f"{message[: MAX_MESSAGE // 2]} (its output of {len(output)} bytes is too large)"
    return reported_error(ErrorClass.PERMANENT, code, message, output, node)


def _outcome(handler: Handler, scope: Scope, error: NodeError) -> Verdict:
    if handler.then is not None:
        return Verdict(error, taken=handler.then)
    if handler.output is not None:
        return Verdict(error, output=render(handler.output, scope))
    assert handler.fail is not None
    return Verdict(made_error(handler.fail, scope, error.node))


def _of_handler(failure: ExpressionFailed, error: NodeError) -> NodeError:
    """Return the error of a handler, which still tells what it was to handle."""
    own = expression_error(failure, error.node)
    message = f"{own.message}; it was to handle {error.code}: {error.message}"
    return replace(own, message=clean_text(message, limit=MAX_MESSAGE))


def handler_expressions(node: Node) -> Iterator[Expression | Template | None]:
    """Yield the expressions that are evaluated when the node fails."""
    for handler in node.on_failure:
        yield handler.when
        yield handler.output
        if handler.fail is not None:
            yield from (handler.fail.code, handler.fail.message, handler.fail.output)


def _text(value: bytes) -> str:
    read = json.loads(value)
    return read if isinstance(read, str) else value.decode()
