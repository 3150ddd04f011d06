"""Nodes that hold a sub-graph: begun, tried again as a whole, and what an ended scope leads to."""

from __future__ import annotations

from perdure_machine.actions import PutStep, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.fanning import Fan, end_item, end_page, fan_of, open_items
from perdure_machine.decide.liveness import is_live, stopping_around
from perdure_machine.decide.repeating import FirstPass, end_pass, first_pass, open_passes
from perdure_machine.decide.scope import scope_for
from perdure_machine.decide.stopping import new_step
from perdure_machine.decide.wholes import begin_scope, complete_whole, fail_whole, new_scope
from perdure_machine.decide.winding import stop_inside, wind_down
from perdure_machine.definition.model import BLOCKS, Block, ForEach, Node, Repeat
from perdure_machine.expressions import ExpressionFailed, Scope, evaluate_bool, render
from perdure_machine.expressions.reads import OUTPUT
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.places import At, Place, container_of, is_source
from perdure_machine.replacing import replace
from perdure_machine.states import BlockEnd, ScopeStatus, StepStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import BlockState, NodeError, ScopeState, StepState

_Opening = Fan | FirstPass | None


def begin_block(draft: Draft, node: Node, place: Place, kind: Block, values: Scope) -> StepState:
    """Begin a node that holds a sub-graph. Raises `ExpressionFailed`."""
    opening = _opening(draft, kind, values)
    again = draft.earlier(At(*place, node.id)) is not None
    generation = _new_generation(draft) if again else place.generation
    step = new_step(draft, node, place, StepStatus.WAITING)
    if isinstance(opening, Fan) and opening.is_kept:
        step = replace(step, input=opening.source)
    draft.put_step(PutStep(step))
    _open(draft, step, generation, opening)
    return step


def retry_block(draft: Draft, step: StepState, kind: Block, values: Scope) -> None:
    """Begin the whole again, in scopes of a new generation. Raises `ExpressionFailed`."""
    opening = _opening(draft, kind, values)
    generation = _new_generation(draft)
    again = draft.put_step(PutStep(moved(step, Move.RESTART)))
    _open(draft, again, generation, opening)


def _new_generation(draft: Draft) -> int:
    generation = draft.run.scope_generation + 1
    draft.run = replace(draft.run, scope_generation=generation)
    return generation


def time_out_block(draft: Draft, step: StepState) -> None:
    """Stop a whole that took longer than its `timeout`."""
    message = f"the whole took longer than {draft.node(step).timeout} s"
    error = NodeError(ErrorClass.RETRYABLE, "TIMEOUT", message, node=step.node)
    stop_inside(draft, step, BlockEnd.FAIL, error)


def end_scope_if_over(draft: Draft, place: Place) -> None:
    """End a scope whose nodes have all ended, or go on with what stops around it."""
    stopping = stopping_around(draft, place)
    if stopping is not None:
        wind_down(draft, stopping)
        return
    if not is_live(draft, place):
        return
    scope = draft.scope(place)
    if scope.status is not ScopeStatus.RUNNING or scope.ended_nodes < len(draft.graph(place).nodes):
        return
    scope = draft.put_scope(_ended(draft, scope))
    step = draft.owner(place)
    if scope.error is not None:
        _fail(draft, step, scope, scope.error)
    else:
        assert scope.output is not None
        _complete(draft, step, scope, scope.output)


def is_block(draft: Draft, step: StepState) -> bool:
    """Tell whether the step holds a sub-graph."""
    return isinstance(draft.node(step).kind, BLOCKS)


def _opening(draft: Draft, kind: Block, values: Scope) -> _Opening:
    match kind:
        case ForEach():
            return fan_of(draft, kind, values)
        case Repeat():
            return first_pass(kind, values)
        case _:
            return None


def _open(draft: Draft, step: StepState, generation: int, opening: _Opening) -> None:
    timeout = draft.node(step).timeout
    if timeout is not None:
        draft.actions.append(SetTimer(TimerKind.TIMEOUT, step.step, timeout))
    match opening:
        case Fan():
            open_items(draft, step, generation, opening)
        case FirstPass():
            open_passes(draft, step, generation, opening)
        case None:
            draft.put_block(BlockState(step.step, generation, total=1, made=1, begun=1))
            draft.record("group_began", step)
            begin_scope(draft, new_scope(draft, step, generation, 0))


def _ended(draft: Draft, scope: ScopeState) -> ScopeState:
    """Return a scope whose nodes have all ended, with its output or its error."""
    if scope.error is not None:
        return replace(scope, status=ScopeStatus.FAILED)
    result = draft.graph(scope.place).result
    try:
        output = render(result, scope_for(draft, scope.place, [result]), omit_absent=True)
    except ExpressionFailed as failure:
        error = expression_error(failure, draft.owner(scope.place).node)
        return replace(scope, status=ScopeStatus.FAILED, error=error)
    return replace(scope, status=ScopeStatus.COMPLETED, output=output)


def _fail(draft: Draft, step: StepState, scope: ScopeState, error: NodeError) -> None:
    if not isinstance(draft.node(step).kind, ForEach):
        fail_whole(draft, step, error)
        return
    if is_source(container_of(scope.scope)):
        stop_inside(draft, step, BlockEnd.FAIL, error)
        return
    too_many = end_item(draft, step, scope.index, error, enough=False)
    if too_many is not None:
        stop_inside(draft, step, BlockEnd.FAIL, too_many)


def _complete(draft: Draft, step: StepState, scope: ScopeState, output: bytes) -> None:
    match draft.node(step).kind:
        case ForEach() if is_source(container_of(scope.scope)):
            problem = end_page(draft, step, scope, output)
            if problem is not None:
                stop_inside(draft, step, BlockEnd.FAIL, problem)
        case ForEach() as kind:
            _complete_item(draft, step, scope, kind, output)
        case Repeat():
            end_pass(draft, step, scope, output)
        case _:
            complete_whole(draft, step, output)


def _complete_item(
    draft: Draft, step: StepState, scope: ScopeState, kind: ForEach, output: bytes
) -> None:
    try:
        enough = kind.stop_when is not None and _is_enough(draft, scope, kind, output)
    except ExpressionFailed as failure:
        stop_inside(draft, step, BlockEnd.FAIL, expression_error(failure, step.node))
        return
    end_item(draft, step, scope.index, None, enough=enough)
    if enough and draft.steps[step.step].status is StepStatus.WAITING:
        stop_inside(draft, step, BlockEnd.COMPLETE)


def _is_enough(draft: Draft, scope: ScopeState, kind: ForEach, output: bytes) -> bool:
    assert kind.stop_when is not None
    values = scope_for(draft, scope.place, [kind.stop_when])
    return evaluate_bool(kind.stop_when, replace(values, loop={**values.loop, OUTPUT: output}))
