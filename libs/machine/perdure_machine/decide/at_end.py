"""What a definition has done when a run ends, after compensation; it never changes the result."""

from __future__ import annotations

from perdure_machine.decide.activate import dispatch, expressions_of, work_of
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.scope import scope_for
from perdure_machine.decide.stopping import new_step, skip
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.model import Node
from perdure_machine.expressions import ExpressionFailed, evaluate_bool
from perdure_machine.node_error import encode_error, expression_error
from perdure_machine.places import TOP, at_top
from perdure_machine.replacing import replace
from perdure_machine.states import StepStatus
from perdure_machine.view import AT_END


def run_at_end(draft: Draft) -> bool:
    """Begin what is to be done at this end; return whether there is anything to wait for.

    Raises `ViewTooNarrow`.
    """
    nodes = draft.definition.nodes_at_end(str(draft.run.ending))
    draft.require(map(at_top, nodes))
    begun = [_begin(draft, draft.definition.nodes[id_]) for id_ in nodes if _is_new(draft, id_)]
    return any(begun)


def _is_new(draft: Draft, id_: str) -> bool:
    return draft.step_of(at_top(id_)) is None


def _begin(draft: Draft, node: Node) -> bool:
    error = encode_error(draft.run.error) if draft.run.error is not None else None
    try:
        values = scope_for(draft, TOP, expressions_of(node), error=error)
        if node.when is not None and not evaluate_bool(node.when, values):
            skip(draft, node, TOP, "its condition was false")
            return False
        work = work_of(draft, node, values)
    except ExpressionFailed as failure:
        failed = replace(new_step(draft, node, TOP, StepStatus.FAILED), compensates=AT_END)
        end_failed(draft, failed, expression_error(failure, node.id))
        return False
    dispatch(draft, node, TOP, work, compensates=AT_END)
    return True
