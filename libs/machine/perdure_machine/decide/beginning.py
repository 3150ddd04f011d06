"""The beginning of a run: at its start, or at the instant that it was put off to.

A run that has not begun exists and can be looked at and cancelled; its way forward is the internal
event that begins it (R10). Its limits count from its beginning.
"""

from __future__ import annotations

from datetime import UTC, datetime

from perdure_machine.actions import Instant, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.ending import fail_run
from perdure_machine.decide.exclusive import EXCLUSIVE_KEY_HELD, Entry, ahead, enter, queue_of
from perdure_machine.decide.limits import limits_of
from perdure_machine.decide.reopening import go_on_again
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.places import at_top
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.view import NodeError, TimerState, has_begun_before


def begin_run(draft: Draft) -> None:
    """Let the limits of the run count from now on, and decide on the nodes that need nothing."""
    try:
        draft.limit_run(limits_of(draft))
    except ExpressionFailed as failure:
        fail_run(draft, expression_error(failure, ""))
        return
    _record(draft)
    draft.candidates.extend(map(at_top, draft.definition.top.roots))


def _record(draft: Draft) -> None:
    parent = draft.run.parent
    if parent is None:
        draft.record("run_started")
    else:
        draft.record("run_started", parent_run_id=str(parent.run_id), parent_step=parent.step)


def put_off(draft: Draft, start: Instant) -> None:
    """Leave the beginning of a new run to an internal event of its own."""
    draft.run = replace(draft.run, pending=True)
    draft.start_at(start)
    draft.actions.append(SetTimer(TimerKind.BEGIN, None, start.after, at=start.at))
    if start.at is None:
        draft.record("run_scheduled", seconds=start.after)
    else:
        at = datetime.fromtimestamp(start.at, UTC).isoformat(timespec="seconds")
        draft.record("run_scheduled", at=at.replace("+00:00", "Z"))


def begin_now(draft: Draft, timer: TimerState) -> None:
    """Begin a run whose time has come, unless its key is not its own yet; or have it go on again.

    One that has begun or ended is left alone (R5).
    """
    if not draft.running or not draft.run.pending:
        return
    entry = enter(draft) if draft.run.exclusive_key is not None else Entry.FREE
    if entry is Entry.REFUSED:
        fail_run(draft, _key_held(draft))
    elif entry is Entry.FREE and has_begun_before(draft.run):
        draft.run = replace(draft.run, pending=False)
        draft.limit_run(limits_of(draft))
        go_on_again(draft)
    elif entry is Entry.FREE:
        draft.run = replace(draft.run, pending=False, begun_ms=timer.now_ms)
        begin_run(draft)


def _key_held(draft: Draft) -> NodeError:
    message = f"run {ahead(queue_of(draft))} holds the exclusive key `{draft.run.exclusive_key}`"
    return NodeError(ErrorClass.PERMANENT, EXCLUSIVE_KEY_HELD, message)
