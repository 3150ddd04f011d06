"""Compensation: what completed is taken back, the last to end first, before the run ends."""

import json
from uuid import UUID

import pytest
from perdure_machine.events import Acquire, CancelRun, ExpireRun, FireTimer, RetryRun, TerminateRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Cancelled, Closed, Done, Gone
from perdure_machine.states import RunStatus, StepStatus
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_testkit.engines.driver import Driver, new_lease, offer_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
UNDO = {"task": {"handler": "undo", "input": "${this}"}, "retry": {"max": 0}}
DONE = {**TASK, "compensate": UNDO}
CHAIN = {
    "a": DONE,
    "b": {**DONE, "needs": ["a"]},
    "c": {**TASK, "needs": ["b"], "retry": {"max": 0}},
}


async def failing(driver: Driver, nodes: dict[str, object], **members: object) -> UUID:
    """Return a run whose `a` and `b` completed and whose `c` failed, so that it compensates."""
    await driver.publish(nodes, **members)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), b'"A"')
    await driver.succeed(await driver.acquire(run, "b"), b'"B"')
    await driver.fail(await driver.acquire(run, "c"), ErrorClass.PERMANENT, "WRONG")
    await driver.settle()
    return run


async def test_what_completed_is_compensated_in_reverse_order_one_after_the_other(
    driver: Driver,
) -> None:
    run = await failing(driver, CHAIN)
    state = await driver.engine.run(run)
    assert (state.status, state.ending) == (RunStatus.RUNNING, RunStatus.FAILED)
    assert (await driver.statuses(run))["b.compensate"] == "queued"
    assert "a.compensate" not in await driver.statuses(run)
    granted = await driver.acquire(run, "b.compensate")
    seen = json.loads(granted.step.input or b"")
    assert seen == {"status": "completed", "input": {}, "output": "B"}
    await driver.succeed(granted)
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    state = await driver.engine.run(run)
    assert (state.status, state.ending, state.uncompensated) == (RunStatus.FAILED, None, 0)
    assert state.error is not None
    assert state.error.code == "WRONG"
    assert [one.run_id for one in await driver.engine.dead_letters(driver.org)] == [run]
    assert (await driver.kinds(run))[-1] == "run_ended"


async def test_a_run_that_fails_as_it_starts_compensates_what_it_did(driver: Driver) -> None:
    unit = {"group": {"nodes": {"x": {"transform": 1}}}, "compensate": UNDO}
    await driver.publish({"a": unit, "f": {"needs": ["a"], "fail": {"code": "NO"}}})
    run = await driver.start()
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_compensation_that_fails_for_good_is_counted_and_the_others_go_on(
    driver: Driver,
) -> None:
    run = await failing(driver, CHAIN)
    await driver.fail(await driver.acquire(run, "b.compensate"), ErrorClass.PERMANENT)
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    state = await driver.engine.run(run)
    assert (state.status, state.uncompensated) == (RunStatus.FAILED, 1)
    assert "compensation_failed" in await driver.kinds(run)


async def test_a_compensation_is_tried_again_by_its_own_rule(driver: Driver) -> None:
    undo = {**UNDO, "retry": {"max": 1, "base": "1s"}}
    run = await failing(driver, {**CHAIN, "b": {**DONE, "needs": ["a"], "compensate": undo}})
    await driver.fail(await driver.acquire(run, "b.compensate"))
    assert (await driver.statuses(run))["b.compensate"] == "backing_off"
    await driver.drain()
    assert (await driver.engine.run(run)).uncompensated == 0


async def test_a_compensation_that_cannot_be_computed_is_counted(driver: Driver) -> None:
    undo = {"task": {"handler": "undo", "input": "${this.output.missing}"}}
    run = await failing(driver, {**CHAIN, "b": {**DONE, "needs": ["a"], "compensate": undo}})
    assert (await driver.statuses(run))["b.compensate"] == "failed"
    await driver.drain()
    assert (await driver.engine.run(run)).uncompensated == 1


async def test_compensations_are_chained_to_the_report_before(driver: Driver) -> None:
    run = await failing(driver, CHAIN)
    granted = await driver.acquire(run, "b.compensate")
    await driver.succeed(granted, offer=offer_of("io:acme"))
    assert (await driver.statuses(run))["a.compensate"] == "running"
    step = await driver.step(run, "a.compensate")
    assert step.compensates == 1
    await driver.engine.advance(11)
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_unfinished_steps_end_first_and_what_then_completes_is_compensated_too(
    driver: Driver,
) -> None:
    await driver.publish({"a": DONE, "b": DONE, "c": {"wait": "1h"}, "d": TASK})
    run = await driver.start()
    granted = await driver.acquire(run, "b")
    await driver.fail(await driver.acquire(run, "d"), ErrorClass.PERMANENT)
    await driver.settle()
    assert await driver.statuses(run) == {
        "a": "cancelled", "b": "running", "c": "cancelled", "d": "failed",
    }  # fmt: skip
    await driver.succeed(granted, b"7")
    assert (await driver.statuses(run))["b.compensate"] == "queued"
    await driver.drain()
    state = await driver.engine.run(run)
    assert (state.status, state.compensations) == (RunStatus.FAILED, 1)


async def test_nothing_new_begins_while_a_run_winds_down(driver: Driver) -> None:
    await driver.publish({"a": DONE, "b": TASK, "c": {**TASK, "needs": ["b"]}, "d": TASK})
    run = await driver.start()
    granted = await driver.acquire(run, "b")
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.fail(await driver.acquire(run, "d"), ErrorClass.PERMANENT)
    await driver.succeed(granted)
    await driver.settle()
    assert "c" not in await driver.statuses(run)
    await driver.drain()


async def test_a_run_without_anything_to_compensate_ends_at_once(driver: Driver) -> None:
    await driver.publish({"a": {**DONE, "retry": {"max": 0}}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert await driver.submit(run, RetryRun()) == Done(changed=True)
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_attempted_compensates_what_was_begun_and_failed(driver: Driver) -> None:
    undo = {**UNDO, "when": "attempted"}
    await driver.publish({"a": {**TASK, "retry": {"max": 0}, "compensate": undo}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT, "WRONG")
    granted = await driver.acquire(run, "a.compensate")
    assert json.loads(granted.step.input or b"")["error"]["code"] == "WRONG"
    await driver.succeed(granted)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_stand_in_for_a_failure_did_nothing_to_compensate(driver: Driver) -> None:
    caught = {**DONE, "retry": {"max": 0}, "on_failure": [{"output": 1}]}
    await driver.publish({"a": caught, "b": {"needs": ["a"], "fail": {"code": "NO"}}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.compensations) == (RunStatus.FAILED, 0)


@pytest.mark.parametrize("compensates", [True, False])
async def test_a_cancel_compensates_only_where_the_document_says_so(
    driver: Driver, compensates: bool
) -> None:
    nodes = {"a": DONE, "b": {**TASK, "needs": ["a"]}}
    await driver.publish(nodes, compensate_on_cancel=compensates)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=True)
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=False)
    await driver.drain()
    state = await driver.engine.run(run)
    assert (state.status, state.compensations) == (RunStatus.CANCELLED, int(compensates))


async def test_a_run_that_timed_out_is_compensated(driver: Driver) -> None:
    await driver.publish({"a": DONE, "b": {"needs": ["a"], "wait": "9h"}}, limits={"age": "1h"})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.engine.advance(3601)
    await driver.submit(run, ExpireRun())
    await driver.drain()
    state = await driver.engine.run(run)
    assert (state.status, state.compensations) == (RunStatus.TIMED_OUT, 1)


async def test_a_finish_may_compensate_and_the_run_completes_with_its_output(
    driver: Driver,
) -> None:
    end = {"finish": {"output": {"kept": False}, "compensate": True}, "needs": ["a"]}
    await driver.publish({"a": DONE, "end": end})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    assert (await driver.engine.run(run)).ending is RunStatus.COMPLETED
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"kept":false}')


async def test_terminate_compensates_nothing_and_ends_a_compensation(driver: Driver) -> None:
    run = await failing(driver, CHAIN)
    assert await driver.submit(run, CancelRun()) == Closed(RunStatus.FAILED)
    assert await driver.submit(run, TerminateRun()) == Cancelled(changed=True)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert (await driver.statuses(run))["b.compensate"] == "cancelled"
    await driver.publish({"a": DONE, "b": {**TASK, "needs": ["a"]}})
    other = await driver.start()
    await driver.succeed(await driver.acquire(other, "a"))
    await driver.submit(other, TerminateRun())
    await driver.settle()
    assert (await driver.engine.run(other)).compensations == 0


async def test_a_compensated_run_is_not_retried(driver: Driver) -> None:
    run = await failing(driver, CHAIN)
    assert await driver.submit(run, RetryRun()) == Done(changed=False)
    await driver.drain()
    with pytest.raises(FailedPrecondition) as refused:
        await driver.submit(run, RetryRun())
    assert refused.value.reason is Reason.RUN_COMPENSATED


async def test_the_items_of_a_loop_are_compensated_across_scopes_the_last_first(
    driver: Driver,
) -> None:
    undo = {"task": {"handler": "undo", "input": "${item}"}, "retry": {"max": 0}}
    batch = {"for_each": {"in": "${input}", "nodes": {"work": {**TASK, "compensate": undo}}}}
    await driver.publish({"batch": batch, "end": {"needs": ["batch"], "fail": {"code": "NO"}}})
    run = await driver.start(b"[10, 20, 30]")
    for index in (1, 0, 2):
        await driver.succeed(await driver.acquire(run, f"batch[{index}].work"))
    inputs = []
    for index in (2, 0, 1):
        await driver.settle()
        granted = await driver.acquire(run, f"batch[{index}].work.compensate")
        inputs.append(granted.step.input)
        await driver.succeed(granted)
    assert inputs == [b"30", b"10", b"20"]
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_that_of_a_whole_runs_instead_of_those_of_its_parts(driver: Driver) -> None:
    whole = {"group": {"nodes": {"work": DONE}}, "compensate": UNDO}
    await driver.publish({"whole": whole, "end": {"needs": ["whole"], "fail": {"code": "NO"}}})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "whole[0].work"))
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "whole.compensate"))
    state = await driver.engine.run(run)
    assert (state.status, state.compensations) == (RunStatus.FAILED, 1)


async def test_forward_work_of_a_run_that_compensates_is_not_handed_out(driver: Driver) -> None:
    await driver.publish({"a": DONE, "b": TASK, "c": TASK})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.fail(await driver.acquire(run, "b"), ErrorClass.PERMANENT)
    queued = await driver.step(run, "c")
    assert queued.status is StepStatus.QUEUED
    assert await driver.submit(run, Acquire(queued.step, new_lease(), "w")) == Gone()
    await driver.drain()


async def test_r10_a_retry_that_fires_while_its_run_winds_down_ends_its_step(
    driver: Driver,
) -> None:
    await driver.publish({"a": DONE, "b": TASK}, compensate_on_cancel=True)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.fail(await driver.acquire(run, "b"))
    (retry,) = await driver.engine.timers()
    await driver.submit(run, CancelRun())
    await driver.engine.advance(60)
    await driver.submit(run, FireTimer(retry.timer_id))
    assert (await driver.step(run, "b")).status is StepStatus.CANCELLED
    assert await driver.engine.no_way_forward() == []
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED


async def test_r10_a_child_that_is_not_started_while_its_run_winds_down_ends_its_step(
    driver: Driver,
) -> None:
    await driver.publish(
        {"a": DONE, "b": {"run": {"workflow": driver.workflow}}}, compensate_on_cancel=True
    )
    run = await driver.start()
    (start,) = await driver.engine.timers()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.submit(run, CancelRun())
    await driver.engine.fire(start)
    assert (await driver.step(run, "b")).status is StepStatus.CANCELLED
    assert await driver.engine.no_way_forward() == []
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED
