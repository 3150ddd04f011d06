"""Actions of a batch become one write of each row, guarded by the row as it was loaded."""

from dataclasses import replace
from uuid import UUID

from perdure_machine.actions import (
    Dequeue,
    DropStepTimers,
    DropTimer,
    Enqueue,
    ExpectedExpiry,
    PutEffect,
    PutRun,
    PutStep,
    SetTimer,
)
from perdure_machine.changes import Changes, collapse
from perdure_machine.states import EffectStatus, RunLimit, RunStatus, StepStatus, TimerKind
from perdure_machine.view import EffectState, RunState, StepState, View

RUN = RunState(
    run_id=UUID(int=1), org="acme", workflow_id=1, workflow="flow", workflow_version=1,
    status=RunStatus.RUNNING, revision=1, generation=0, priority=0, next_step=2, ended_nodes=0,
    next_seq=1, input=None, output=None, error=None, start_key=None, tags={}, traceparent=None,
)  # fmt: skip
QUEUED = StepState(1, "a", "task", StepStatus.QUEUED, lane="io", owner="acme")
RUNNING = replace(QUEUED, status=StepStatus.RUNNING, fence=1, lease_id=UUID(int=2), worker="w")
BEFORE = View(RUN, {1: QUEUED})
EFFECT = EffectState("k", 1, "provider", EffectStatus.IN_FLIGHT, 1, 1)


def collapsed(*actions: object, before: View | None = BEFORE) -> Changes:
    changes = collapse(before, [*actions, PutRun(replace(RUN, revision=2))])  # type: ignore[list-item]
    assert changes is not None
    return changes


def test_nothing_is_written_where_nothing_was_decided() -> None:
    assert collapse(BEFORE, []) is None


def test_the_last_state_of_a_row_is_written_once_with_the_one_it_was_loaded_in() -> None:
    ended = replace(RUNNING, status=StepStatus.COMPLETED)
    changes = collapsed(PutStep(RUNNING, lease_for=10), PutRun(RUN), PutStep(ended, ended=True))
    (change,) = changes.steps
    assert (change.put.step, change.put.lease_for, change.before) == (ended, None, QUEUED)
    assert changes.run.run.revision == 2


def test_a_step_made_in_the_batch_has_no_state_before() -> None:
    new = replace(QUEUED, step=2, node="b")
    changes = collapsed(PutStep(new), Enqueue(2))
    assert [change.before for change in changes.steps] == [None]
    assert changes.enqueue == (new,)


def test_what_the_end_and_the_limits_of_a_run_stamp_outlives_a_later_write() -> None:
    changes = collapsed(PutRun(RUN, ended=True, limits={RunLimit.AGE: 60.0}))
    assert (changes.run.ended, changes.run.limits) == (True, {RunLimit.AGE: 60.0})


def test_the_check_that_a_lease_ran_out_outlives_a_later_acquisition() -> None:
    expired = ExpectedExpiry(timed_out=False)
    changes = collapsed(PutStep(QUEUED, expired=expired), PutStep(RUNNING, lease_for=10))
    (change,) = changes.steps
    assert (change.put.expired, change.put.lease_for) == (expired, 10)


def test_a_step_queued_and_taken_in_one_batch_leaves_no_outbox_row() -> None:
    changes = collapsed(PutStep(QUEUED), Enqueue(1), PutStep(RUNNING), Dequeue(1))
    assert (changes.enqueue, changes.dequeue) == ((), (1,))
    new = replace(RUNNING, step=2)
    changes = collapsed(PutStep(new), Enqueue(2), Dequeue(2))
    assert (changes.enqueue, changes.dequeue) == ((), ())


def test_a_step_taken_and_handed_back_in_one_batch_has_its_row_again() -> None:
    changes = collapsed(Dequeue(1), PutStep(RUNNING), PutStep(QUEUED), Enqueue(1))
    assert (changes.enqueue, changes.dequeue) == ((QUEUED,), ())


def test_dropping_a_steps_timers_also_drops_those_set_in_the_batch() -> None:
    mine, other = SetTimer(TimerKind.RETRY, 1, 5.0), SetTimer(TimerKind.RETRY, 2, 5.0)
    changes = collapsed(mine, other, DropTimer(9), DropStepTimers(1))
    assert (changes.set_timers, changes.drop_timers) == ((other,), (9,))
    assert changes.drop_step_timers == (DropStepTimers(1),)


def test_an_effect_begun_and_settled_in_one_batch_is_written_once_as_new() -> None:
    settled = replace(EFFECT, status=EffectStatus.SETTLED)
    changes = collapsed(PutEffect(EFFECT, created=True), PutEffect(settled))
    assert changes.effects == (PutEffect(settled, created=True),)
