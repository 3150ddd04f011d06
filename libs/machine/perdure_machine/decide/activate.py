"""The beginning of a node: its condition, its input, and its first state by kind."""

from __future__ import annotations

from dataclasses import dataclass

from perdure_machine.actions import PutStep, SetTimer
from perdure_machine.decide.begin_child import CannotBegin, begin_child, cancel_other
from perdure_machine.decide.blocks import begin_block
from perdure_machine.decide.calling import call_expressions, call_input
from perdure_machine.decide.catching import made_error
from perdure_machine.decide.choosing import chosen
from perdure_machine.decide.connecting import chosen_connection, has_place, keep_connection
from perdure_machine.decide.consent import about_step, node_subject
from perdure_machine.decide.deadlines import set_deadline
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.emitting import EMITTED, emitted, post
from perdure_machine.decide.ending import fail_run, finish_run, run_output
from perdure_machine.decide.joining import node_scope
from perdure_machine.decide.leasing import enqueue, hand_out
from perdure_machine.decide.naming import effect_name, effect_prefix
from perdure_machine.decide.scope import run_input
from perdure_machine.decide.shaping import shaped
from perdure_machine.decide.spending import node_cost, put_estimate
from perdure_machine.decide.standing import may_have_been_called
from perdure_machine.decide.stopping import new_step, skip
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.decide.waiting import begin_wait
from perdure_machine.definition.model import (
    CancelRun,
    ChildRun,
    Emit,
    Fail,
    Finish,
    ForEach,
    Group,
    Kind,
    Node,
    Repeat,
    Signal,
    Switch,
    Task,
    Transform,
    Wait,
)
from perdure_machine.definition.outside import Call, Grpc, Http
from perdure_machine.events import Queue
from perdure_machine.expressions import (
    Expression,
    ExpressionFailed,
    Scope,
    Template,
    evaluate_bool,
    evaluate_duration,
    render,
)
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.places import At, Place
from perdure_machine.replacing import replace
from perdure_machine.states import StepStatus, TimerKind
from perdure_machine.view import NodeError, StepState

SHARED_OWNER = "shared"
"""The owner of the queues of built-in executors."""

_NOTHING = b"null"


def activate(draft: Draft, node: Node, place: Place) -> StepState:
    """Begin a node whose needs allow it."""
    is_new = draft.earlier(At(*place, node.id)) is None
    if is_new and draft.run.next_step > draft.definition.limits.steps:
        return _refuse_step(draft, node, place)
    try:
        scope = node_scope(draft, node, place, expressions_of(node))
        if node.when is not None and not evaluate_bool(node.when, scope):
            return skip(draft, node, place, "its condition was false")
        limit = evaluate_duration(node.deadline, scope) if node.deadline is not None else None
        step = _begin(draft, node, place, scope)
        set_deadline(draft, step, limit)
        return step
    except ExpressionFailed as failure:
        return fail_at_once(draft, node, place, expression_error(failure, node.id))
    except CannotBegin as refusal:
        return fail_at_once(draft, node, place, refusal.error)


def fail_at_once(draft: Draft, node: Node, place: Place, error: NodeError) -> StepState:
    """End a node that failed before it could begin."""
    return end_failed(draft, new_step(draft, node, place, StepStatus.FAILED), error)


def _begin(draft: Draft, node: Node, place: Place, scope: Scope) -> StepState:
    match node.kind:
        case Transform(value):
            return _complete(draft, node, place, shaped(draft, node, place, render(value, scope)))
        case Switch():
            return _switch(draft, node, place, node.kind, scope)
        case Fail():
            return fail_at_once(draft, node, place, made_error(node.kind, scope, node.id))
        case Finish():
            return _finish(draft, node, place, node.kind, scope)
        case Wait():
            return _wait(draft, node, place, node.kind, scope)
        case ForEach() | Repeat() | Group():
            return begin_block(draft, node, place, node.kind, scope)
        case ChildRun():
            return begin_child(draft, node, place, node.kind, scope)
        case CancelRun():
            cancel_other(draft, node, node.kind, scope)
            return _complete(draft, node, place, shaped(draft, node, place, _NOTHING))
        case Signal():
            return begin_wait(draft, node, place, node.kind, scope)
        case Emit():
            return _emit(draft, node, place, node.kind, scope)
        case Task() | Http() | Grpc():
            return dispatch(draft, node, place, work_of(draft, node, scope))


def _complete(
    draft: Draft, node: Node, place: Place, output: bytes, taken: tuple[str, ...] | None = None
) -> StepState:
    step = replace(new_step(draft, node, place, StepStatus.COMPLETED), output=output, taken=taken)
    step = draft.end_node(PutStep(step, ended=True))
    then = {} if taken is None else {"then": ", ".join(taken)}
    draft.record("step_completed", step, **then)
    return step


def _switch(draft: Draft, node: Node, place: Place, kind: Switch, scope: Scope) -> StepState:
    taken = next(
        (case.then for case in kind.cases if evaluate_bool(case.when, scope)), kind.otherwise
    )
    return _complete(draft, node, place, shaped(draft, node, place, _NOTHING), taken)


def _finish(draft: Draft, node: Node, place: Place, kind: Finish, scope: Scope) -> StepState:
    if kind.output is None:
        output = run_output(draft)
    else:
        output = render(kind.output, scope, omit_absent=True)
    step = _complete(draft, node, place, shaped(draft, node, place, output))
    finish_run(draft, node.id, output, compensate=kind.compensate)
    return step


def _wait(draft: Draft, node: Node, place: Place, kind: Wait, scope: Scope) -> StepState:
    seconds = evaluate_duration(kind.duration, scope)
    step = draft.put_step(PutStep(new_step(draft, node, place, StepStatus.WAITING)))
    draft.actions.append(SetTimer(TimerKind.WAIT, step.step, seconds))
    draft.record("step_waiting", step, seconds=seconds)
    return step


def _emit(draft: Draft, node: Node, place: Place, kind: Emit, scope: Scope) -> StepState:
    letter = emitted(kind, scope, f"{EMITTED}{effect_prefix(draft.run, place, node)}")
    step = _complete(draft, node, place, shaped(draft, node, place, _NOTHING))
    post(draft, step, letter)
    return step


def dispatch(
    draft: Draft, node: Node, place: Place, work: Work, compensates: int | None = None
) -> StepState:
    """Begin work: its step is queued, or chained to the report that led to it.

    Raises `ViewTooNarrow` where its connection was not asked for a place.
    """
    run = draft.run
    owner = run.org if isinstance(node.kind, Task) else SHARED_OWNER
    made = new_step(draft, node, place, StepStatus.QUEUED)
    step = replace(
        made,
        lane=node.lane,
        owner=owner,
        priority=max(-100, min(100, run.priority + node.priority)),
        effect_prefix=made.effect_prefix or effect_prefix(run, place, node, work.effect),
        input=work.input,
        traceparent=run.traceparent,
        compensates=compensates,
    )
    keep_connection(draft, step, work.connection)
    # A step that was tried before, alone or with what it stands in, may have a call on record,
    # which only its acquisition looks up.
    # So does whom it is about, and what it costs.
    may_have_called = step.fence > 0 or may_have_been_called(node.kind, place)
    is_looked_up = may_have_called or work.subject is not None or work.cost is not None
    about_step(draft, step, work.subject)
    put_estimate(draft, step, work.cost)
    offer = None if is_looked_up else draft.take_offer(Queue(node.lane, owner))
    if offer is not None and has_place(draft, step, offer.lease_id, work.connection):
        draft.chained = hand_out(draft, step, offer.lease_id, offer.worker)
        return draft.chained.step
    draft.put_step(PutStep(step))
    enqueue(draft, step)
    return step


@dataclass(frozen=True, slots=True)
class Work:
    """What a step is to do, JSON, whom that is about, and the connection that it needs.

    `cost` is what a try of it may cost, in millionths; `effect` the name that an expression gives
    its effect.
    """

    input: bytes
    subject: str | None = None
    connection: str | None = None
    cost: int | None = None
    effect: str | None = None


def work_of(draft: Draft, node: Node, scope: Scope) -> Work:
    """Return the work of a node, a task's or a call. Raises `ExpressionFailed`."""
    assert isinstance(node.kind, Task | Http | Grpc)
    payload = _work_input(draft, node.kind, scope)
    return Work(
        payload,
        node_subject(node, scope),
        chosen_connection(node, scope),
        node_cost(node, scope),
        effect_name(node.effect_key, scope),
    )


def _work_input(draft: Draft, kind: Task | Call, scope: Scope) -> bytes:
    if isinstance(kind, Task):
        if kind.choice is not None:
            chosen(kind, scope)  # or the node fails before anybody is asked
        return run_input(draft) if kind.input is None else render(kind.input, scope)
    return call_input(kind, scope)


def _refuse_step(draft: Draft, node: Node, place: Place) -> StepState:
    """End a run that has had all the steps it may have; nothing catches that."""
    limit = draft.definition.limits.steps
    message = f"the run reached its limit of {limit} steps"
    error = NodeError(ErrorClass.PERMANENT, "TOO_MANY_STEPS", message, node=node.id)
    failed = replace(new_step(draft, node, place, StepStatus.FAILED), error=error)
    step = draft.end_node(PutStep(failed, ended=True))
    draft.record("step_failed", step, code=error.code, message=error.message)
    fail_run(draft, error)
    return step


def expressions_of(node: Node) -> list[Expression | Template | None]:
    """Return the expressions that are evaluated when the node begins."""
    connection = node.connection if isinstance(node.connection, Template) else None
    about = (node.subject, connection, node.cost, node.effect_key)
    return [node.when, node.deadline, *about, *_of_kind(node.kind)]


def _of_kind(kind: Kind) -> list[Expression | Template | None]:
    match kind:
        case Task():
            return [kind.input, kind.choice]
        case Http() | Grpc():
            return call_expressions(kind)
        case Wait():
            return [kind.duration]
        case Transform():
            return [kind.value]
        case Switch():
            return [case.when for case in kind.cases]
        case Fail():
            return [kind.code, kind.message, kind.output]
        case Finish():
            return [kind.output]
        case ForEach():
            return [kind.items, kind.concurrency]
        case Repeat():
            return [kind.while_, *(one.init for one in kind.carry.values())]
        case Group():
            return []
        case ChildRun():
            return [kind.workflow, kind.version, kind.input]
        case CancelRun():
            return [kind.run, kind.reason]
        case Signal():
            return [kind.key, kind.filter, kind.deadline]
        case Emit():
            return [kind.key, kind.run, kind.data]
