"""Answers to callbacks: each is for one wait, and is kept for it where that has not begun."""

from __future__ import annotations

from perdure_runtime.errors import FailedPrecondition, NotFound, Reason

from perdure_machine.callbacks import channel_of, is_proved, read_token
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import node_scope
from perdure_machine.decide.liveness import is_live
from perdure_machine.decide.mail import inbox, store
from perdure_machine.decide.signals import refuse_full
from perdure_machine.decide.waiting import admits, end_by_signal
from perdure_machine.definition.model import Signal
from perdure_machine.events import AnswerCallback
from perdure_machine.mailbox import SignalState
from perdure_machine.places import TOP, At
from perdure_machine.replacing import replace
from perdure_machine.replies import Closed, Reply, Signalled
from perdure_machine.states import ENDED, StepStatus
from perdure_machine.view import StepState, ViewTooNarrow, Wanted


def answer_callback(draft: Draft, event: AnswerCallback) -> Reply:
    """Take an answer to the wait that its token is for.

    One that the run has is told so whatever became of the wait. Raises NotFound where the run did
    not make the token, and FailedPrecondition where the wait has its answer, or is over.
    """
    at, signal = event.callback.at, event.signal
    _check_proof(draft, event)
    if signal.signal_id in draft.mail.known:
        return Signalled(new=False)
    if not draft.running:
        return Closed(draft.run.status)
    step = _wait(draft, at)
    if step is None and inbox(draft, channel_of(at)):
        raise _spent()
    refuse_full(draft.mail.weight + signal.weight)
    store(draft, signal)
    if step is not None:
        kind = draft.node(step).kind
        assert isinstance(kind, Signal)
        scope = node_scope(draft, draft.node(step), step.place, [kind.filter])
        if admits(kind, scope, signal):
            end_by_signal(draft, step, signal)
    return Signalled(new=True)


def answer_to(token: str, signal: SignalState) -> AnswerCallback:
    """Return the event that answers a token. Raises NotFound for a text that is no token."""
    callback = read_token(token)
    if callback is None:
        raise invalid()
    return AnswerCallback(callback, replace(signal, name=channel_of(callback.at)))


def invalid() -> NotFound:
    """Return the refusal of a token that no run of the org has made."""
    return NotFound("there is no such callback", reason=Reason.CALLBACK_INVALID)


def _check_proof(draft: Draft, event: AnswerCallback) -> None:
    mail = draft.mail
    if mail.secret is None:
        raise ViewTooNarrow(Wanted(secret=True))
    proved = is_proved(event.callback, mail.secret, draft.run.org, draft.run.run_id)
    if not proved or not mail.secret_kept:
        raise invalid()


def _wait(draft: Draft, at: At) -> StepState | None:
    """Return the step that waits for the answer, None where it has not begun to."""
    node = draft.definition.nodes.get(at.node)
    if node is None or not isinstance(node.kind, Signal) or at.place in draft.view.absent_scopes:
        raise _spent()
    if at.place != TOP and not is_live(draft, at.place):
        raise _spent()
    draft.require({at})
    step = draft.step_of(at)
    if step is None or step.undecided:
        return None
    if step.status in ENDED:
        raise _spent()
    return step if step.status is StepStatus.WAITING else None


def _spent() -> FailedPrecondition:
    return FailedPrecondition(
        "the wait of this callback has its answer, or is over", reason=Reason.CALLBACK_SPENT
    )
