"""Compares what is decided at once with what `decide` makes of the same report, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure_machine.actions import PutRun, PutStep, RecordAttempt, RecordHistory
from perdure_machine.changes import Changes, MailChanges, StepChange, collapse
from perdure_machine.decide import Decision, decide
from perdure_machine.decide.hand_over import HandOver, hand_over
from perdure_machine.definition.model import Definition
from perdure_machine.events import Event, Report
from perdure_machine.lanes import Lane
from perdure_machine.places import TOP
from perdure_machine.states import AttemptOutcome
from perdure_machine.view import StepState, View


class ComparedDecide:
    """`decide`, which also hands over where that can be done, and counts the comparisons.

    Raises AssertionError where the two differ.
    """

    def __init__(self) -> None:
        self.compared = 0

    def __call__(
        self,
        definition: Definition,
        lanes: Mapping[str, Lane],
        view: View,
        event: Event,
        others: Mapping[int, Definition] = MappingProxyType({}),
    ) -> Decision:
        """Decide as `decide` does."""
        decision = decide(definition, lanes, view, event, others)
        if isinstance(event, Report) and event.step in view.steps:
            step = view.steps[event.step]
            handed = hand_over(definition, lanes, view.run, step, event)
            if handed is not None and not _has_begun(view, handed.granted.step):
                self.compared += 1
                assert handed.reply == decision.reply
                assert changes_of(handed, view, step) == collapse(view, decision.actions)
        return decision


def changes_of(handed: HandOver, view: View, step: StepState) -> Changes:
    """Return what a hand-over changes of a run that was seen as `view`."""
    ended, begun, granted = handed.ended, handed.granted.step, handed.granted
    assert step.lease_id is not None
    assert step.worker is not None
    seq = view.run.next_seq
    completed = AttemptOutcome.COMPLETED
    return Changes(
        before=view,
        run=PutRun(handed.run),
        steps=(
            StepChange(PutStep(ended, ended=True), step),
            StepChange(PutStep(begun, granted.lease_for, handed.try_for), None),
        ),
        attempts=(
            RecordAttempt(
                step.step, step.fence, step.lease_id, step.worker, completed, None, begun.step
            ),
        ),
        history=(
            RecordHistory(seq, "step_completed", ended.step, ended.fence, {"node": ended.node}),
            RecordHistory(
                seq + 1,
                "step_leased",
                begun.step,
                begun.fence,
                {"node": begun.node, "worker": begun.worker or ""},
            ),
        ),
        enqueue=(), dequeue=(), set_timers=(), drop_timers=(), hold_timers=(), let_timers_go=(),
        drop_step_timers=(), drop_run_timers=(), key_moves=(), effects=(), children=(),
        mail=MailChanges(),
    )  # fmt: skip


def _has_begun(view: View, begun: StepState) -> bool:
    """Tell whether the heir has a step already, which the write of a hand-over would find."""
    return any(one.node == begun.node and one.place == TOP for one in view.steps.values())
