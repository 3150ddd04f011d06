"""Signals that come to a run: each goes to the oldest open wait that it fits (protocol p6)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_runtime.errors import Reason, ResourceExhausted

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import node_scope
from perdure_machine.decide.liveness import is_live
from perdure_machine.decide.mail import inbox, note, store
from perdure_machine.decide.waiting import admits, end_by_signal
from perdure_machine.definition.model import Signal
from perdure_machine.events import DeliverSignals, SendSignal
from perdure_machine.expressions import Scope
from perdure_machine.mailbox import MAX_WAITING, SignalState
from perdure_machine.replies import Applied, Closed, Reply, Signalled, Stale
from perdure_machine.view import StepState, ViewTooNarrow, Wanted


def send(draft: Draft, event: SendSignal) -> Reply:
    """Take a signal to the run; one that it has is told so whatever became of the run (F024)."""
    signal = event.signal
    if signal.signal_id in draft.mail.known:
        return Signalled(new=False)
    if not draft.running:
        return Closed(draft.run.status)
    refuse_full(draft.mail.weight + signal.weight)
    store(draft, signal)
    _offer(draft, signal)
    return Signalled(new=True)


def deliver(draft: Draft, event: DeliverSignals) -> Reply:
    """Look at what was stored without the run's lock."""
    if not draft.running:
        return Stale()
    for signal in inbox(draft, event.name):
        _offer(draft, signal)
    note(draft, draft.mail.waiting(event.name))
    return Applied()


def refuse_full(weight: int) -> None:
    """Raise ResourceExhausted where an inbox of this weight would be too full."""
    if weight > MAX_WAITING:
        raise ResourceExhausted(
            "too many signals wait that nobody has taken", reason=Reason.INBOX_FULL
        )


def _offer(draft: Draft, signal: SignalState) -> None:
    fitting = [wait for wait in draft.mail.waits.get(signal.name, ()) if wait.takes(signal)]
    steps = _steps(draft, sorted(wait.step for wait in fitting))
    for step, kind, scope in _asked(draft, steps):
        if admits(kind, scope, signal):
            end_by_signal(draft, step, signal)
            return


def _steps(draft: Draft, numbers: Sequence[int]) -> list[StepState]:
    lacking = frozenset(number for number in numbers if number not in draft.steps)
    if lacking:
        raise ViewTooNarrow(Wanted(steps=lacking))
    return [draft.steps[number] for number in numbers]


def _asked(draft: Draft, steps: Sequence[StepState]) -> list[tuple[StepState, Signal, Scope]]:
    """Return what the filters of steps see; asks at once for all that they lack.

    A step in a sub-graph that stops takes nothing any more.
    """
    lacking = Wanted()
    found: list[tuple[StepState, Signal, Scope]] = []
    for step in steps:
        node = draft.node(step)
        assert isinstance(node.kind, Signal)
        try:
            if not is_live(draft, step.place):
                continue
            found.append((step, node.kind, node_scope(draft, node, step.place, [node.kind.filter])))
        except ViewTooNarrow as narrow:
            lacking = lacking.joined(narrow.wanted)
    if lacking != Wanted():
        raise ViewTooNarrow(lacking)
    return found
