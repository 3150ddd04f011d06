"""Retry of a failed run from what failed in it: the one way out of a final state (protocol p11).

The run goes on as it is: what completed stays, and settled effects stand. Its failed nodes, and
those that were cancelled or skipped, are decided again, in the same step rows. First all of them
are marked, some at a time, then they are decided, so that none is decided on a failure that is to
be tried again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from perdure_runtime.errors import Aborted, AlreadyExists, FailedPrecondition, Reason

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.effects import is_begun
from perdure_machine.decide.exclusive import Entry, check_may_wait, enter
from perdure_machine.decide.later import go_on_later
from perdure_machine.decide.limits import limits_of
from perdure_machine.decide.parking import MAX_MOVED_AT_ONCE, steps_in
from perdure_machine.decide.racing import left_over
from perdure_machine.events import RetryRun
from perdure_machine.places import TOP, at_top
from perdure_machine.replacing import replace
from perdure_machine.replies import Closed, Done, Reply
from perdure_machine.states import ENDED, EffectStatus, RunStatus, StepStatus, TimerKind
from perdure_machine.view import StepState, TimerState, ViewTooNarrow, Wanted

DECIDED_AT_ONCE = 100
"""Nodes that one event looks at anew once all are marked."""

_UNFINISHED = frozenset(StepStatus) - ENDED
_AGAIN = frozenset({StepStatus.CANCELLED, StepStatus.SKIPPED})


def retry_run(draft: Draft, event: RetryRun) -> Reply:
    """Open a failed run again; one that goes on already has been.

    One whose exclusive key was handed over takes it again, or waits for its turn. Raises
    `FailedPrecondition` where what failed cannot be tried again, `AlreadyExists` where another run
    has its key and it does not wait, `Aborted` while its last steps end, and `ViewTooNarrow`.
    """
    if draft.open:
        return Done(changed=False)
    if draft.run.status is not RunStatus.FAILED:
        return Closed(draft.run.status)
    if draft.run.erased:
        message = "the payloads of the run were erased, so it cannot go on"
        raise FailedPrecondition(message, reason=Reason.RUN_ERASED)
    if draft.run.compensations:
        message = "completed steps of the run were compensated, so it cannot go on"
        raise FailedPrecondition(message, reason=Reason.RUN_COMPENSATED)
    _check_can_be_tried(draft)
    _check_parent_was_not_told(draft)
    if draft.run.exclusive_key is not None:
        check_may_wait(draft)
    draft.reopen_run()
    draft.limit_run(limits_of(draft))
    draft.record_order("run_retried", event.reason, event.actor)
    pending = draft.run.exclusive_key is not None and enter(draft) is not Entry.FREE
    draft.run = replace(draft.run, pending=pending)
    if not pending:
        go_on_again(draft)
    return Done(changed=True)


def go_on_again(draft: Draft) -> None:
    """Have what failed in an open run decided again, from the first of its steps on."""
    _go_on_after(draft, 0)


def reopen_steps(draft: Draft, timer: TimerState) -> None:
    """Mark the next steps that are decided again; when all are, decide them."""
    if not draft.running or timer.generation != draft.run.generation:
        return
    after = int(timer.details or b"0")
    found = _steps_after(draft, after)
    page, lost = found[:MAX_MOVED_AT_ONCE], _lost(draft)
    for number in page:
        step = draft.steps[number]
        is_last = step.compensates is not None  # what was done at the end stays done, or failed
        if step.node in draft.definition.nodes and step.node not in lost and not is_last:
            _mark(draft, step)
    if len(found) > MAX_MOVED_AT_ONCE:
        _go_on_after(draft, page[-1])
    else:
        draft.touched[TOP] = None
        nodes = [at_top(node) for node in draft.definition.top.nodes]
        for first in range(0, len(nodes), DECIDED_AT_ONCE):
            go_on_later(draft, nodes[first : first + DECIDED_AT_ONCE])


def replay(draft: Draft, timer: TimerState) -> None:
    """Retry a dead letter, if it is the one that was meant; a refusal is told in its history."""
    if not draft.run.dead_lettered or timer.generation != draft.run.generation:
        return
    try:
        retry_run(draft, RetryRun((timer.details or b"").decode()))
    except (FailedPrecondition, AlreadyExists) as refusal:
        draft.record("replay_refused", reason=refusal.message)


def _lost(draft: Draft) -> frozenset[str]:
    """Return what was left over when a join decided without it: that stays so."""
    graph = {id_: draft.definition.nodes[id_] for id_ in draft.definition.top.nodes}
    found: frozenset[str] = frozenset()
    for node in graph.values():
        join = draft.step_of(at_top(node.id)) if node.join.cancels_rest else None
        if join is not None and join.status is StepStatus.COMPLETED:
            steps = {need: draft.step_of(at_top(need)) for need in node.needs}
            arrived = (need for need, step in steps.items() if step and step.status not in _AGAIN)
            found |= left_over(graph, node.id, frozenset(arrived))
    return found


def _check_can_be_tried(draft: Draft) -> None:
    if steps_in(draft, _UNFINISHED):
        raise Aborted("the last steps of the run are still ending", reason=Reason.RETRY)
    error = draft.run.error
    for number in _steps_after(draft, 0):
        step = draft.steps[number]
        if error is not None and step.node == error.node and _has_lost_result(draft, step):
            raise FailedPrecondition(
                f"`{step.node}` cannot be tried again: its call was performed",
                reason=Reason.EFFECT_UNRESOLVED,
                metadata={"step": str(step.step), "node": step.node},
            )


def _has_lost_result(draft: Draft, step: StepState) -> bool:
    """Tell whether the step's call was performed, and nobody knows what it came to."""
    effects = draft.begun_effects(step.step) if is_begun(draft, step) else []
    return any(
        effect.status is EffectStatus.SETTLED
        and effect.call is not None
        and effect.call.result is None
        for effect in effects
    )


def _check_parent_was_not_told(draft: Draft) -> None:
    """See that nobody has acted on the end of the run: it would get another one."""
    parent = draft.run.parent
    if parent is not None and parent.told:
        raise FailedPrecondition(
            f"its parent run {parent.run_id} was told how the run ended: retry that one",
            reason=Reason.PARENT_TOLD,
            metadata={"parent_run_id": str(parent.run_id)},
        )


def _mark(draft: Draft, step: StepState) -> None:
    """Have a step decided again, or count one that completed after its run had ended."""
    if step.status is StepStatus.COMPLETED:
        draft.count_late(step)
    elif step.status in _AGAIN or step.taken is None:
        draft.reopen_step(step)


def _steps_after(draft: Draft, after: int) -> Sequence[int]:
    """Return the next steps that may be decided again. Raises `ViewTooNarrow`."""
    if draft.view.reopening is None:
        raise ViewTooNarrow(Wanted(reopening=frozenset({after})))
    return [number for number in draft.view.reopening if number > after]


def _go_on_after(draft: Draft, after: int) -> None:
    details = json.dumps(after).encode()
    timer = SetTimer(TimerKind.REOPEN, None, 0.0, draft.run.generation, details=details)
    draft.actions.append(timer)
