"""The beginning of a node: its condition, its input, and its first state by kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from perdure_machine.actions import PutStep, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import fail_run
from perdure_machine.decide.leasing import enqueue, hand_out
from perdure_machine.decide.scope import object_bytes, run_input, scope_for
from perdure_machine.definition.model import Http, Kind, Node, Task, Transform, Wait
from perdure_machine.events import Queue
from perdure_machine.expressions import (
    Expression,
    ExpressionFailed,
    NodeValue,
    Scope,
    Template,
    evaluate_bool,
    evaluate_duration,
    render,
)
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.view import NodeError, StepState

SHARED_OWNER = "shared"
"""The owner of the queues of built-in executors."""


def activate(draft: Draft, node: Node) -> StepState:
    """Begin a node whose needs allow it."""
    if draft.run.next_step > draft.definition.limits.steps:
        return _fail(draft, node, _too_many_steps(draft, node))
    try:
        scope = scope_for(draft, _expressions(node))
        if node.when is not None and not evaluate_bool(node.when, scope):
            return skip(draft, node, "its condition was false")
        return _begin(draft, node, scope)
    except ExpressionFailed as failure:
        return _fail(draft, node, expression_error(failure, node.id))


def skip(draft: Draft, node: Node, why: str) -> StepState:
    """End a node without having run it."""
    step = draft.end_node(PutStep(_new(draft, node, StepStatus.SKIPPED), ended=True))
    draft.record("step_skipped", step, why=why)
    return step


def shaped(draft: Draft, node: Node, output: bytes) -> bytes:
    """Return the node's output as its `result` shapes it. Raises `ExpressionFailed`."""
    if node.result is None:
        return output
    own = {node.id: NodeValue(StepStatus.COMPLETED, output, None)}
    return render(node.result, scope_for(draft, [node.result], own))


def _begin(draft: Draft, node: Node, scope: Scope) -> StepState:
    match node.kind:
        case Transform():
            return _transform(draft, node, node.kind, scope)
        case Wait():
            return _wait(draft, node, node.kind, scope)
        case Task() | Http():
            return _dispatch(draft, node, _work_input(draft, node.kind, scope))


def _transform(draft: Draft, node: Node, kind: Transform, scope: Scope) -> StepState:
    output = shaped(draft, node, render(kind.value, scope))
    step = _new(draft, node, StepStatus.COMPLETED)
    step = draft.end_node(PutStep(replace(step, output=output), ended=True))
    draft.record("step_completed", step)
    return step


def _wait(draft: Draft, node: Node, kind: Wait, scope: Scope) -> StepState:
    seconds = evaluate_duration(kind.duration, scope)
    step = draft.put_step(PutStep(_new(draft, node, StepStatus.WAITING)))
    draft.actions.append(SetTimer(TimerKind.WAIT, step.step, seconds))
    draft.record("step_waiting", step, seconds=seconds)
    return step


def _dispatch(draft: Draft, node: Node, payload: bytes) -> StepState:
    run = draft.run
    owner = run.org if isinstance(node.kind, Task) else SHARED_OWNER
    step = replace(
        _new(draft, node, StepStatus.QUEUED),
        lane=node.lane,
        owner=owner,
        priority=max(-100, min(100, run.priority + node.priority)),
        effect_prefix=f"{run.run_id}/{node.id}",
        input=payload,
        traceparent=run.traceparent,
    )
    offer = draft.take_offer(Queue(node.lane, owner))
    if offer is not None:
        draft.chained = hand_out(draft, step, offer.lease_id, offer.worker)
        return draft.chained.step
    draft.put_step(PutStep(step))
    enqueue(draft, step)
    return step


def _work_input(draft: Draft, kind: Task | Http, scope: Scope) -> bytes:
    if isinstance(kind, Task):
        return run_input(draft) if kind.input is None else render(kind.input, scope)
    members = [("method", json.dumps(kind.method).encode()), ("url", render(kind.url, scope))]
    if kind.headers:
        members.append(("headers", _rendered(kind.headers.items(), scope)))
    if kind.query:
        members.append(("query", _rendered(kind.query.items(), scope)))
    if kind.body is not None:
        members.append(("body", render(kind.body, scope)))
    if kind.success:
        members.append(("success", json.dumps(sorted(kind.success)).encode()))
    return object_bytes(members)


def _rendered(templates: Iterable[tuple[str, Template]], scope: Scope) -> bytes:
    return object_bytes((name, render(template, scope)) for name, template in templates)


def _new(draft: Draft, node: Node, status: StepStatus) -> StepState:
    return StepState(draft.new_step_number(), node.id, node.kind.name, status)


def _fail(draft: Draft, node: Node, error: NodeError) -> StepState:
    failed = replace(_new(draft, node, StepStatus.FAILED), error=error)
    step = draft.end_node(PutStep(failed, ended=True))
    draft.record("step_failed", step, code=error.code, message=error.message)
    fail_run(draft, error)
    return step


def _too_many_steps(draft: Draft, node: Node) -> NodeError:
    limit = draft.definition.limits.steps
    return NodeError(
        ErrorClass.PERMANENT,
        "TOO_MANY_STEPS",
        f"the run reached its limit of {limit} steps",
        None,
        node.id,
    )


def _expressions(node: Node) -> list[Expression | Template | None]:
    return [node.when, *_templates(node.kind)]


def _templates(kind: Kind) -> list[Template | None]:
    match kind:
        case Task():
            return [kind.input]
        case Http():
            return [kind.url, kind.body, *kind.headers.values(), *kind.query.values()]
        case Wait():
            return [kind.duration]
        case Transform():
            return [kind.value]
