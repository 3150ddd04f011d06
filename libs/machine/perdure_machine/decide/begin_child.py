"""The beginning of the nodes that start and cancel other runs."""

from __future__ import annotations

import json
import re
from uuid import UUID

from perdure_runtime.errors import Reason, clean_text

from perdure_machine.actions import PutStep, SetTimer
from perdure_machine.decide.child_messages import ask_to_end
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.stopping import new_step
from perdure_machine.definition.model import CancelRun, ChildRun, Node
from perdure_machine.expressions import Scope, Template, render
from perdure_machine.job_types import NAME, PREFIX
from perdure_machine.node_error import MAX_MESSAGE, ErrorClass
from perdure_machine.places import Place
from perdure_machine.replacing import replace
from perdure_machine.states import ChildStatus, StepStatus, TimerKind
from perdure_machine.view import ChildState, NodeError, StepState

MAX_DEPTH = 50
"""Runs that may stand above a run; a chain of children that starts itself ends there."""

_NAME = re.compile(f"({PREFIX})?{NAME}")
_MAX_VERSION = 2**31 - 1
_NO_INPUT = b"{}"


class CannotBegin(Exception):
    """The node fails with `error` before it has begun."""

    def __init__(self, error: NodeError) -> None:
        super().__init__(error.message)
        self.error = error


def begin_child(draft: Draft, node: Node, place: Place, kind: ChildRun, scope: Scope) -> StepState:
    """Let the step wait for its child, whose start is an internal event.

    Raises `CannotBegin` and `ExpressionFailed`.
    """
    if draft.run.depth >= MAX_DEPTH:
        message = f"more than {MAX_DEPTH} runs would stand above the child"
        raise _refusal(node, "CHILD_TOO_DEEP", message)
    workflow, version = called_workflow(node, kind, scope)
    payload = _NO_INPUT if kind.input is None else render(kind.input, scope)
    step = replace(new_step(draft, node, place, StepStatus.WAITING), input=payload)
    ask_for_child(draft, draft.put_step(PutStep(step)), workflow, version)
    return step


def ask_for_child(draft: Draft, step: StepState, workflow: str, version: int) -> None:
    """Have a child started for a try of a waiting step; which try it is stands on the timer."""
    node = draft.node(step)
    assert isinstance(node.kind, ChildRun)
    rule = node.kind.on_parent_end
    draft.put_child(ChildState(step.step, workflow, version, rule, ChildStatus.STARTING))
    draft.actions.append(SetTimer(TimerKind.START_CHILD, step.step, 0.0, step.failures))
    if node.timeout is not None:
        draft.actions.append(SetTimer(TimerKind.TIMEOUT, step.step, node.timeout))
    draft.record("child_wanted", step, workflow=workflow, version=version)


def cancel_other(draft: Draft, node: Node, kind: CancelRun, scope: Scope) -> None:
    """Leave word for the run that it is to end.

    Raises `CannotBegin` and `ExpressionFailed`.
    """
    asked = _text(kind.run, scope)
    try:
        run_id = UUID(asked)
    except ValueError:
        raise _refusal(node, "RUN_ID_INVALID", f"'{asked}' is no id of a run") from None
    reason = _text(kind.reason, scope) if kind.reason is not None else ""
    ask_to_end(draft, run_id, reason or f"`{node.id}` of run {draft.run.run_id} cancelled it")


def called_workflow(node: Node, kind: ChildRun, scope: Scope) -> tuple[str, int]:
    """Return name and version of what the node calls, 0 for the latest.

    Raises `CannotBegin` where there can be no such workflow, and `ExpressionFailed`.
    """
    name = _text(kind.workflow, scope)
    if not _NAME.fullmatch(name):
        raise _refusal(node, Reason.WORKFLOW_NOT_FOUND, f"'{name}' is no name of a workflow")
    if kind.version is None:
        return name, 0
    version = json.loads(render(kind.version, scope))
    if isinstance(version, bool) or not isinstance(version, int) or not 0 < version <= _MAX_VERSION:
        message = f"a version is a whole number from 1 on, not {json.dumps(version)[:80]}"
        raise _refusal(node, Reason.WORKFLOW_NOT_FOUND, message)
    return name, version


def _text(template: Template, scope: Scope) -> str:
    value = render(template, scope)
    read = json.loads(value)
    return clean_text(read if isinstance(read, str) else value.decode(), limit=MAX_MESSAGE)


def _refusal(node: Node, code: str, message: str) -> CannotBegin:
    text = clean_text(message, limit=MAX_MESSAGE)
    return CannotBegin(NodeError(ErrorClass.PERMANENT, str(code), text, node=node.id))
