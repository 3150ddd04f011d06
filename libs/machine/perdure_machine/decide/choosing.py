"""Which handler a task calls, where its definition leaves that to an expression."""

from __future__ import annotations

import json

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import node_scope
from perdure_machine.definition.model import Task
from perdure_machine.expressions import ExpressionCode, ExpressionFailed, Scope, render
from perdure_machine.view import StepState


def handler_of(draft: Draft, step: StepState) -> str:
    """Return the handler of a step, empty for one that is no task. Raises `ViewTooNarrow`.

    What chooses it stands on rows that never change, so every hand-out of the step names the same.
    """
    node = draft.node(step)
    if not isinstance(node.kind, Task):
        return ""
    if node.kind.choice is None:
        return node.kind.handler
    return chosen(node.kind, node_scope(draft, node, step.place, [node.kind.choice]))


def chosen(kind: Task, scope: Scope) -> str:
    """Return the handler that an expression chooses. Raises `ExpressionFailed` for no such one."""
    assert kind.choice is not None
    name = json.loads(render(kind.choice, scope))
    if isinstance(name, str) and name in kind.one_of:
        return name
    known = ", ".join(sorted(kind.one_of))
    message = f"{json.dumps(name)[:80]} is none of the handlers {known}"
    raise ExpressionFailed(ExpressionCode.NOT_ONE_OF, message, kind.choice.source)
