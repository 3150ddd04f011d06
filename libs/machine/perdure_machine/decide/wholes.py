"""The whole of a sub-graph: its scopes begin, and the step that holds it ends or is tried again."""

from __future__ import annotations

from perdure_machine.actions import DropStepTimers, PutStep, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.failing import matching_rule, retry_delay
from perdure_machine.decide.shaping import shaped
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import DEADLINE, expression_error
from perdure_machine.places import At, inner_scope, page_scope
from perdure_machine.replacing import replace
from perdure_machine.states import ScopeStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import NodeError, ScopeState, StepState

_PHI = 0.6180339887498949


def new_scope(
    draft: Draft,
    step: StepState,
    generation: int,
    index: int,
    *,
    item: bytes | None = None,
    carry: bytes | None = None,
) -> ScopeState:
    """Make a scope of a step, which begins later."""
    path = inner_scope(step.scope, step.node, index)
    scope = ScopeState(path, generation, step.step, index, ScopeStatus.PENDING)
    return draft.put_scope(replace(scope, item=item, carry=carry))


def new_page(
    draft: Draft, step: StepState, generation: int, index: int, cursor: bytes
) -> ScopeState:
    """Make the scope in which a page of a step's items is asked for."""
    path = page_scope(step.scope, step.node, index)
    scope = ScopeState(path, generation, step.step, index, ScopeStatus.PENDING)
    return draft.put_scope(replace(scope, carry=cursor))


def begin_scope(draft: Draft, scope: ScopeState) -> None:
    """Begin a scope: the nodes in it that need nothing are decided next."""
    draft.put_scope(replace(scope, status=ScopeStatus.RUNNING), begins=True)
    draft.candidates.extend(At(*scope.place, root) for root in draft.graph(scope.place).roots)


def complete_whole(draft: Draft, step: StepState, output: bytes) -> None:
    """End a step that holds a sub-graph because all in it is done."""
    try:
        output = shaped(draft, draft.node(step), step.place, output)
    except ExpressionFailed as failure:
        fail_whole(draft, step, expression_error(failure, step.node))
        return
    draft.actions.append(DropStepTimers(step.step))
    done = replace(moved(step, Move.END_WAIT), output=output, error=None)
    draft.record("step_completed", draft.end_node(PutStep(done, ended=True)))


def fail_whole(draft: Draft, step: StepState, error: NodeError) -> None:
    """Fail a step that holds a sub-graph; its `retry` may have the whole tried again."""
    draft.actions.append(DropStepTimers(step.step, deadline=False))
    failed = replace(step, failures=step.failures + 1, error=error)
    rule = matching_rule(draft.node(step).retry, error)
    is_too_late = error.code == DEADLINE and error.node == step.node
    if rule is None or failed.failures > rule.max or is_too_late:
        end_failed(draft, failed, error)
        return
    delay = retry_delay(rule, failed.failures, _spread(failed), None)
    back = draft.put_step(PutStep(moved(failed, Move.BACK_OFF)))
    draft.actions.append(SetTimer(TimerKind.RETRY, back.step, delay))
    draft.record("step_backing_off", back, code=error.code, message=error.message, seconds=delay)


def _spread(step: StepState) -> float:
    """Return a number in [0, 1) that spreads the retries of a run's wholes, the same every time.

    What ends a whole is often a timer, which brings no jitter of its own. Multiples of the golden
    ratio lie apart from each other, however many there are.
    """
    return (step.step * 31 + step.failures) * _PHI % 1.0
