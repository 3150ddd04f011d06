"""Compares what is decided at once with what `decide` makes of the same event, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure_machine.actions import PutRun, PutStep, RecordAttempt, RecordHistory
from perdure_machine.changes import Changes, MailChanges, StepChange, collapse
from perdure_machine.decide import Decision, decide, decide_start
from perdure_machine.decide.first_step import TakeUp, start_plainly, take_up
from perdure_machine.decide.hand_over import HandOver, hand_over
from perdure_machine.decide.last_report import LastReport, last_report
from perdure_machine.decide.last_wait import LastWait, last_wait
from perdure_machine.decide.start import NOTHING_SENT
from perdure_machine.definition.model import Definition
from perdure_machine.events import Acquire, Event, FireTimer, Report, Start
from perdure_machine.lanes import Lane
from perdure_machine.mailbox import Mailbox
from perdure_machine.places import TOP
from perdure_machine.states import AttemptOutcome
from perdure_machine.view import StepState, View


class ComparedDecide:
    """`decide`, which also decides at once where that can be done, and counts the comparisons.

    `compared` counts the hand-overs, `taken_up` the leases of first steps, `finished` the last
    reports, `waited` the last waits. Raises AssertionError where the two differ.
    """

    def __init__(self) -> None:
        self.compared = self.taken_up = self.finished = self.waited = 0

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
            self._compare_last(definition, view, step, event, decision)
            handed = hand_over(definition, lanes, view.run, step, event)
            if handed is not None and not _has_begun(view, handed.granted.step):
                self.compared += 1
                assert handed.reply == decision.reply
                assert changes_of(handed, view, step) == collapse(view, decision.actions)
        if isinstance(event, Acquire) and event.step in view.steps:
            step = view.steps[event.step]
            taken = take_up(definition, lanes, view.run, step, event)
            if taken is not None:
                self.taken_up += 1
                assert taken.reply == decision.reply
                assert changes_of_lease(taken, view, step) == collapse(view, decision.actions)
        if isinstance(event, FireTimer) and event.timer_id in view.timers:
            self._compare_wait(definition, view, event, decision)
        return decision

    def _compare_wait(
        self, definition: Definition, view: View, event: FireTimer, decision: Decision
    ) -> None:
        timer = view.timers[event.timer_id]
        step = view.steps.get(timer.step) if timer.step is not None else None
        last = last_wait(definition, view.run, step, timer) if step is not None else None
        if last is not None and step is not None:
            self.waited += 1
            assert last.reply == decision.reply
            assert changes_of_wait(last, view, step) == collapse(view, decision.actions)

    def _compare_last(
        self, definition: Definition, view: View, step: StepState, event: Report, decision: Decision
    ) -> None:
        last = last_report(definition, view.run, step, event)
        if last is not None:
            self.finished += 1
            assert last.reply == decision.reply
            assert changes_of_end(last, view, step) == collapse(view, decision.actions)


class ComparedStart:
    """`decide_start`, which also starts plainly where that can be done, and counts these.

    Raises AssertionError where the two differ.
    """

    def __init__(self) -> None:
        self.compared = 0

    def __call__(
        self,
        definition: Definition,
        lanes: Mapping[str, Lane],
        event: Start,
        mail: Mailbox = NOTHING_SENT,
    ) -> Decision:
        """Decide as `decide_start` does."""
        decision = decide_start(definition, lanes, event, mail)
        plain = start_plainly(definition, event)
        if plain is not None:
            self.compared += 1
            assert plain == collapse(None, decision.actions)
        return decision


def changes_of_lease(taken: TakeUp, view: View, step: StepState) -> Changes:
    """Return what the lease of a first step changes of a run that was seen as `view`."""
    leased, granted = taken.granted.step, taken.granted
    line = {"node": leased.node, "worker": leased.worker or ""}
    return Changes(
        before=view,
        run=PutRun(taken.run),
        steps=(StepChange(PutStep(leased, granted.lease_for, granted.timeout), step),),
        dequeue=(step.step,),
        history=(RecordHistory(view.run.next_seq, "step_leased", step.step, 1, line),),
        enqueue=(), set_timers=(), drop_timers=(), hold_timers=(), let_timers_go=(),
        drop_step_timers=(), drop_run_timers=(), key_moves=(), attempts=(), effects=(),
        children=(), mail=MailChanges(),
    )  # fmt: skip


def changes_of_end(last: LastReport, view: View, step: StepState) -> Changes:
    """Return what a last report changes of a run that was seen as `view`."""
    assert step.lease_id is not None
    assert step.worker is not None
    seq, done = view.run.next_seq, AttemptOutcome.COMPLETED
    return Changes(
        before=view,
        run=PutRun(last.run, ended=True),
        steps=(StepChange(PutStep(last.ended, ended=True), step),),
        attempts=(RecordAttempt(step.step, step.fence, step.lease_id, step.worker, done),),
        history=(
            RecordHistory(seq, "step_completed", step.step, step.fence, {"node": step.node}),
            RecordHistory(seq + 1, "run_completed"),
        ),
        enqueue=(), dequeue=(), set_timers=(), drop_timers=(), hold_timers=(), let_timers_go=(),
        drop_step_timers=(), drop_run_timers=(), key_moves=(), effects=(), children=(),
        mail=MailChanges(),
    )  # fmt: skip


def changes_of_wait(last: LastWait, view: View, step: StepState) -> Changes:
    """Return what the end of a last wait changes of a run that was seen as `view`."""
    seq = view.run.next_seq
    return Changes(
        before=view,
        run=PutRun(last.run, ended=True),
        steps=(StepChange(PutStep(last.ended, ended=True), step),),
        drop_timers=(last.timer_id,),
        history=(
            RecordHistory(seq, "wait_ended", step.step, None, {"node": step.node}),
            RecordHistory(seq + 1, "run_completed"),
        ),
        enqueue=(), dequeue=(), set_timers=(), hold_timers=(), let_timers_go=(),
        drop_step_timers=(), drop_run_timers=(), key_moves=(), attempts=(), effects=(),
        children=(), mail=MailChanges(),
    )  # fmt: skip


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
