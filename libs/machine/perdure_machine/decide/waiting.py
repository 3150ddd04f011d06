"""Nodes that wait for a signal: begun, ended by one, or by their deadline (protocol p6, R9)."""

from __future__ import annotations

from perdure_machine.actions import DropStepTimers, PutStep
from perdure_machine.callbacks import channel_of, is_channel
from perdure_machine.decide.deadlines import set_deadline
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.mail import (
    claim,
    close_wait,
    has_mail,
    inbox,
    key_text,
    open_wait,
    signal_bytes,
    take,
)
from perdure_machine.decide.shaping import shaped
from perdure_machine.decide.stopping import new_step
from perdure_machine.decide.uncaught import end_failed
from perdure_machine.definition.model import Node, Signal
from perdure_machine.expressions import (
    ExpressionFailed,
    Scope,
    evaluate_bool,
    evaluate_duration,
    render,
)
from perdure_machine.mailbox import SignalState, WaitState
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.places import At, Place
from perdure_machine.replacing import replace
from perdure_machine.states import StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import NodeError, StepState

KEY_TAKEN = "KEY_TAKEN"
"""The code of a node that waits on a key of another run."""


def begin_wait(draft: Draft, node: Node, place: Place, kind: Signal, scope: Scope) -> StepState:
    """Take the oldest signal that fits, or wait for one. Raises `ExpressionFailed`."""
    key = None
    if kind.key is not None:
        key = key_text(render(kind.key, scope), kind.key.source)
    patience = None if kind.deadline is None else evaluate_duration(kind.deadline, scope)
    at = At(*place, node.id)
    earlier = draft.earlier(at)
    number = draft.run.next_step if earlier is None else earlier.step
    wait, channel = WaitState(number, kind.signal, key), channel_of(at)
    if key is not None and not claim(draft, key, channel, kind.signal):
        return end_failed(draft, new_step(draft, node, place, StepStatus.FAILED), _taken(node, key))
    has_mail(draft)
    for signal in inbox(draft, channel, kind.signal):
        fits = signal.name == channel or wait.takes(signal)
        if fits and admits(kind, scope, signal):
            return _end_at_once(draft, node, place, signal)
    return _wait(draft, node, place, wait, patience)


def admits(kind: Signal, scope: Scope, signal: SignalState) -> bool:
    """Tell whether the filter lets a signal through; one that has no value does not."""
    if kind.filter is None:
        return True
    try:
        return evaluate_bool(kind.filter, replace(scope, signal=signal_bytes(signal, kind.signal)))
    except ExpressionFailed:
        return False


def end_by_signal(draft: Draft, step: StepState, signal: SignalState) -> None:
    """End a step that waits with the data of a signal, which it consumes."""
    draft.actions.append(DropStepTimers(step.step))
    close_wait(draft, step.step)
    try:
        output = shaped(draft, draft.node(step), step.place, signal.data)
    except ExpressionFailed as failure:
        end_failed(draft, step, expression_error(failure, step.node))
        return
    take(draft, signal, step.step)
    done = replace(moved(step, Move.END_WAIT), output=output)
    _tell(draft, draft.end_node(PutStep(done, ended=True)), signal)


def _end_at_once(draft: Draft, node: Node, place: Place, signal: SignalState) -> StepState:
    output = shaped(draft, node, place, signal.data)
    done = replace(new_step(draft, node, place, StepStatus.COMPLETED), output=output)
    take(draft, signal, done.step)
    step = draft.end_node(PutStep(done, ended=True))
    _tell(draft, step, signal)
    return step


def _wait(
    draft: Draft, node: Node, place: Place, wait: WaitState, patience: float | None
) -> StepState:
    step = draft.put_step(PutStep(new_step(draft, node, place, StepStatus.WAITING)))
    open_wait(draft, wait)
    told: dict[str, str | float] = {"signal": wait.name}
    if wait.key is not None:
        told["key"] = wait.key
    set_deadline(draft, step, patience)
    if patience is not None:
        told["seconds"] = patience
    draft.record("signal_awaited", step, **told)
    return step


def _tell(draft: Draft, step: StepState, signal: SignalState) -> None:
    if is_channel(signal.name):
        draft.record("callback_taken", step, id=signal.signal_id)
        return
    told = {"signal": signal.name, "id": signal.signal_id}
    if signal.key is not None:
        told["key"] = signal.key
    draft.record("signal_taken", step, **told)


def _taken(node: Node, key: str) -> NodeError:
    message = f"the key `{key}` belongs to another run that goes on"
    return NodeError(ErrorClass.PERMANENT, KEY_TAKEN, message, node=node.id)
