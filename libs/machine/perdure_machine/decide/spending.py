"""Money: set aside before a try, settled after it with what it came to (design section 11).

A run's own limit fails the node and the run, as every guard against runaways does. A budget of the
operator parks the step until it is raised or its next period begins (protocol p8).
"""

from __future__ import annotations

import json

from perdure_machine.actions import Charge, Dequeue, PutCost, PutStep
from perdure_machine.budgets import BudgetState, CostState, Spending
from perdure_machine.decide.connecting import generation_of
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import fail_run
from perdure_machine.definition.model import Node
from perdure_machine.expressions import ExpressionCode, ExpressionFailed, Scope, render
from perdure_machine.money import amount, units
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.transitions import Move, moved
from perdure_machine.view import NodeError, Parked, StepState, ViewTooNarrow, Wanted

BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
"""The code of a run that would cost more than it may."""


def node_cost(node: Node, scope: Scope) -> int | None:
    """Return what a try of the node is estimated to cost, None where it costs nothing.

    Raises `ExpressionFailed`.
    """
    if node.cost is None:
        return None
    value = json.loads(render(node.cost, scope))
    try:
        return amount(value)
    except ValueError as problem:
        raise ExpressionFailed(ExpressionCode.TYPE, str(problem), node.cost.source) from None


def put_estimate(draft: Draft, step: StepState, cost: int | None) -> None:
    """Keep what a try of a step that begins is estimated to cost."""
    if cost is not None:
        draft.costs[step.step] = CostState(step.step, cost)
        draft.actions.append(PutCost(step.step, cost))


def reserve(draft: Draft, step: StepState) -> bool:
    """Set aside what the try of a queued step may cost; return whether it may begin.

    Raises `ViewTooNarrow`.
    """
    if draft.node(step).cost is None:
        return True
    cost, spending = draft.costs_of(step)
    limit = draft.definition.limits.cost
    if limit is not None and spending.total + cost.estimate > limit:
        _exceed(draft, step, cost.estimate, limit)
        return False
    short = next((one for one in _budgets(draft) if one.left < cost.estimate), None)
    if short is not None:
        _park(draft, step, short)
        return False
    _charge(draft, step, cost, spending)
    return True


def _budgets(draft: Draft) -> tuple[BudgetState, ...]:
    if draft.budgets is None:
        raise ViewTooNarrow(Wanted(budgets=True))
    return draft.budgets


def _charge(draft: Draft, step: StepState, cost: CostState, spending: Spending) -> None:
    budgets = _budgets(draft)
    aside = cost.estimate
    draft.costs[step.step] = replace(cost, reserved=aside)
    draft.spending = replace(spending, reserved=spending.reserved + aside)
    draft.budgets = tuple(replace(one, left=one.left - aside) for one in budgets)
    names = tuple(one.name for one in budgets)
    draft.actions.append(Charge(step.step, step.fence + 1, aside, names))


def _park(draft: Draft, step: StepState, budget: BudgetState) -> None:
    generation = generation_of(draft, budget.cause)
    draft.actions.append(Dequeue(step.step))
    parked = Parked(budget.cause, generation, step.status)
    stopped = draft.put_step(PutStep(replace(moved(step, Move.PARK), parked=parked)))
    draft.record("step_parked", stopped, why=f"budget {budget.name} is exhausted")


def _exceed(draft: Draft, step: StepState, estimate: int, limit: int) -> None:
    message = f"a try for {units(estimate)} would take the run past its limit of {units(limit)}"
    error = NodeError(ErrorClass.PERMANENT, BUDGET_EXCEEDED, message, node=step.node)
    draft.actions.append(Dequeue(step.step))
    failed = replace(moved(step, Move.FAIL), error=error)
    draft.record(
        "step_failed",
        draft.end_node(PutStep(failed, ended=True)),
        code=error.code,
        message=error.message,
    )
    fail_run(draft, error)
