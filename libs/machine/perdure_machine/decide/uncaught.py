"""The end of a node by a failure, and what an uncaught one does to its run."""

from __future__ import annotations

from perdure_machine.actions import ExpectedExpiry, PutStep
from perdure_machine.decide.catching import Verdict, judge
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import fail_run
from perdure_machine.decide.later import go_on_later
from perdure_machine.definition.model import Node, OnError
from perdure_machine.places import TOP, At, at_top
from perdure_machine.replacing import replace
from perdure_machine.transitions import TABLE, Move, moved
from perdure_machine.view import AT_END, NodeError, StepState


def end_failed(
    draft: Draft, step: StepState, error: NodeError, *, expired: ExpectedExpiry | None = None
) -> StepState:
    """End a node, new or begun, because it failed; its `on_failure` may catch that."""
    verdict = judge(draft, draft.node(step), step.place, error)
    move = Move.FAIL if verdict.output is None else Move.CATCH
    ended = replace(
        _moved(draft, step, move),
        error=verdict.error,
        taken=verdict.taken,
        output=verdict.output,
        parked=None,
    )
    draft.end_node(PutStep(ended, ended=True, expired=expired))
    _tell(draft, ended, verdict)
    if not verdict.caught:
        _give_up(draft, ended, verdict.error)
    return ended


def _moved(draft: Draft, step: StepState, move: Move) -> StepState:
    known = draft.steps.get(step.step)
    if known is not None and not known.undecided:
        return moved(step, move)
    return replace(step, status=TABLE[move].target)


def _tell(draft: Draft, step: StepState, verdict: Verdict) -> None:
    error = verdict.error
    told = {"code": error.code, "message": error.message}
    if verdict.taken is not None:
        told["then"] = ", ".join(verdict.taken)
    if verdict.caught:
        draft.record("step_caught", step, **told)
    else:
        draft.record("step_failed", step, **told)


def _give_up(draft: Draft, step: StepState, error: NodeError) -> None:
    """Let the scope, or the run, end failed: at once if nothing in it can run any more."""
    if step.compensates == AT_END:
        return
    if step.compensates is not None:
        left = draft.run.uncompensated + 1
        draft.run = replace(draft.run, uncompensated=left)
        draft.record("compensation_failed", step, code=error.code, message=error.message)
        return
    if draft.error_in(step.place) is not None:
        return
    if step.place == TOP:
        _give_up_run(draft, draft.node(step), error)
        return
    draft.put_scope(replace(draft.scope(step.place), error=error))
    if draft.definition.on_error is OnError.STOP:
        others = (At(*step.place, one) for one in draft.graph(step.place).nodes)
        draft.candidates.extend(at for at in others if draft.stops(at))


def _give_up_run(draft: Draft, node: Node, error: NodeError) -> None:
    stops = draft.definition.on_error is OnError.STOP
    if stops and not node.survivors and not draft.run.awaited_children:
        fail_run(draft, error)
        return
    draft.run = replace(draft.run, error=error)
    draft.record("run_failing", node=error.node, code=error.code, message=error.message)
    if stops:
        others = map(at_top, draft.definition.top.nodes)
        go_on_later(draft, [at for at in others if draft.stops(at)])
