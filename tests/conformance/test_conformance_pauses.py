"""Pauses: what is parked and brought back, what is held meanwhile; and runs that are terminated."""

from uuid import UUID

import pytest
from perdure_machine.decide.parking import PAUSE
from perdure_machine.events import (
    Acquire,
    CancelRun,
    ExpireRun,
    FireTimer,
    PauseRun,
    Release,
    ResumeRun,
    TerminateRun,
)
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Cancelled, Closed, Done, Gone, Stale
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_machine.view import Parked
from perdure_testkit.engines.driver import Driver, new_lease, offer_of
from perdure_testkit.engines.port import Engine

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
CHAIN = {"a": TASK, "b": {**TASK, "needs": ["a"]}}
MINUTE = {"wait": "1m"}


async def paused(driver: Driver, nodes: dict[str, object], **members: object) -> UUID:
    """Return a run of these nodes that is paused, with everything parked."""
    await driver.publish(nodes, **members)
    run = await driver.start()
    assert await driver.submit(run, PauseRun("look at it")) == Done(changed=True)
    await driver.settle()
    return run


async def test_p8_a_pause_parks_what_is_queued_and_a_resume_brings_the_same_step_back(
    driver: Driver,
) -> None:
    run = await paused(driver, {"a": TASK})
    step = await driver.step(run, "a")
    assert (step.status, step.parked) == (StepStatus.PARKED, Parked(PAUSE, 1, StepStatus.QUEUED))
    assert list(await driver.engine.queued()) == []
    assert (await driver.engine.run(run)).paused
    assert await driver.submit(run, ResumeRun()) == Done(changed=True)
    await driver.settle()
    back = await driver.step(run, "a")
    assert (back.step, back.status, back.parked) == (step.step, StepStatus.QUEUED, None)
    await driver.drain()
    state = await driver.engine.run(run)
    assert (state.status, state.paused) == (RunStatus.COMPLETED, False)
    assert await driver.kinds(run) == [
        "run_started", "step_queued", "run_paused", "step_parked", "run_resumed", "step_unparked",
        "step_leased", "step_completed", "run_completed",
    ]  # fmt: skip


async def test_pausing_and_resuming_twice_changes_nothing(driver: Driver) -> None:
    run = await paused(driver, {"a": TASK})
    assert await driver.submit(run, PauseRun()) == Done(changed=False)
    await driver.submit(run, ResumeRun())
    assert await driver.submit(run, ResumeRun()) == Done(changed=False)
    await driver.drain()
    assert await driver.submit(run, PauseRun()) == Closed(RunStatus.COMPLETED)
    assert await driver.submit(run, ResumeRun()) == Closed(RunStatus.COMPLETED)


@pytest.mark.parametrize("node", [{**TASK, "retry": {"max": 1, "base": "5s"}}, {"wait": "5s"}])
async def test_r10_a_timer_that_comes_due_before_its_step_is_brought_back_is_not_lost(
    driver: Driver, node: dict[str, object]
) -> None:
    await driver.publish({"a": node})
    run = await driver.start()
    if "task" in node:
        await driver.fail(await driver.acquire(run, "a"))
    await driver.submit(run, PauseRun())
    await driver.settle()
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    await driver.submit(run, ResumeRun())
    await driver.engine.advance(6)
    timers = {timer.kind: timer.timer_id for timer in await driver.engine.timers()}
    back = timers.pop(TimerKind.UNPARK)
    await driver.submit(run, FireTimer(*timers.values()))
    await driver.submit(run, FireTimer(back))
    assert not await driver.engine.no_way_forward()
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_step_that_is_not_parked_yet_is_not_handed_out_in_a_pause(driver: Driver) -> None:
    await driver.publish({"a": TASK})
    run = await driver.start()
    await driver.submit(run, PauseRun())
    assert await driver.submit(run, Acquire(1, new_lease(), "w")) == Gone()
    assert await driver.statuses(run) == {"a": "parked"}
    assert list(await driver.engine.queued()) == []
    await driver.settle()
    await driver.submit(run, ResumeRun())
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_result_that_comes_in_a_pause_is_applied_and_begins_nothing(
    driver: Driver,
) -> None:
    await driver.publish(CHAIN)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, PauseRun())
    assert await driver.succeed(granted, b"7", offer=offer_of("io:acme")) == Applied()
    await driver.settle()
    assert await driver.statuses(run) == {"a": "completed"}
    await driver.submit(run, ResumeRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "completed", "b": "queued"}
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_run_whose_last_step_ends_in_a_pause_ends_when_it_is_resumed(
    driver: Driver,
) -> None:
    await driver.publish({"a": TASK})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, PauseRun())
    await driver.succeed(granted, b"7")
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    assert list(await driver.engine.no_way_forward()) == []
    await driver.submit(run, ResumeRun())
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"a":7}')


@pytest.mark.parametrize("how", ["fails", "is released", "is lost"])
async def test_running_work_of_a_paused_run_is_parked_when_it_comes_back(
    driver: Driver, how: str
) -> None:
    await driver.publish({"a": TASK})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, PauseRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "running"}
    assert granted.step.lease_id is not None
    was = StepStatus.QUEUED
    if how == "fails":
        await driver.fail(granted)
        was = StepStatus.BACKING_OFF
    elif how == "is released":
        await driver.submit(run, Release(1, 1, granted.step.lease_id))
    else:
        await driver.engine.advance(11)
        await driver.settle()
    assert (await driver.step(run, "a")).parked == Parked(PAUSE, 1, was)
    assert list(await driver.engine.queued()) == []
    await driver.submit(run, ResumeRun())
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize("settled", [True, False])
async def test_p5_timers_that_come_due_in_a_pause_fire_after_it(
    driver: Driver, settled: bool
) -> None:
    """Also before the step of the timer was parked by its turn."""
    await driver.publish({"a": MINUTE, "b": TASK})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "b"))
    await driver.submit(run, PauseRun())
    if settled:
        await driver.settle()
        assert await driver.statuses(run) == {"a": "parked", "b": "parked"}
    await driver.engine.advance(90)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "parked", "b": "parked"}
    await driver.submit(run, ResumeRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "completed", "b": "queued"}
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_timers_that_are_not_due_go_on_through_a_pause(driver: Driver) -> None:
    run = await paused(driver, {"a": MINUTE})
    await driver.engine.advance(20)
    await driver.submit(run, ResumeRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "waiting"}
    await driver.engine.advance(41)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p5_a_late_pause_after_a_resume_parks_nothing(driver: Driver) -> None:
    await driver.publish({"a": TASK})
    run = await driver.start()
    await driver.submit(run, PauseRun())
    await driver.submit(run, ResumeRun())
    kinds = {timer.kind: timer.timer_id for timer in await driver.engine.timers()}
    assert kinds.keys() == {TimerKind.PARK, TimerKind.UNPARK}
    await driver.submit(run, FireTimer(kinds[TimerKind.UNPARK]))
    await driver.submit(run, FireTimer(kinds[TimerKind.PARK]))
    assert await driver.statuses(run) == {"a": "queued"}


async def test_p5_a_late_resume_after_a_pause_brings_nothing_back(driver: Driver) -> None:
    run = await paused(driver, {"a": TASK})
    await driver.submit(run, ResumeRun())
    (timer,) = await driver.engine.timers()
    await driver.submit(run, PauseRun())
    await driver.submit(run, FireTimer(timer.timer_id))
    assert await driver.statuses(run) == {"a": "parked"}
    await driver.settle()
    assert await driver.statuses(run) == {"a": "parked"}
    await driver.submit(run, ResumeRun())
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_501_steps_are_parked_and_brought_back_500_at_a_time(driver: Driver) -> None:
    await driver.publish({f"t{i}": TASK for i in range(501)})
    run = await driver.start()
    await driver.settle()
    for event, kind in ((PauseRun(), TimerKind.PARK), (ResumeRun(), TimerKind.UNPARK)):
        await driver.submit(run, event)
        moved = []
        while timers := [one for one in await driver.engine.timers() if one.kind is kind]:
            await driver.submit(run, FireTimer(timers[0].timer_id))
            moved.append(len(await driver.engine.queued()))
        assert moved == ([1, 0] if kind is TimerKind.PARK else [500, 501])


async def test_a_signal_that_comes_in_a_pause_ends_its_wait_and_begins_nothing(
    driver: Driver,
) -> None:
    run = await paused(driver, {"a": {"signal": {"name": "go"}}, "b": {**TASK, "needs": ["a"]}})
    assert await driver.statuses(run) == {"a": "waiting"}
    assert await driver.send(run, "go", b"7")
    await driver.settle()
    assert await driver.statuses(run) == {"a": "completed"}
    await driver.submit(run, ResumeRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "completed", "b": "queued"}
    await driver.drain()


async def test_a_child_that_ends_in_a_pause_counts_and_none_is_started(
    driver: Driver, engine: Engine
) -> None:
    child = Driver(engine)
    await child.publish({"work": TASK})
    call = {"run": {"workflow": child.workflow}}
    await driver.publish({"call": call, "again": {**call, "needs": ["call"]}})
    run = await driver.start()
    await driver.settle()
    (first,) = await engine.children(run)
    assert first.run_id is not None
    await driver.submit(run, PauseRun())
    await child.succeed(await child.acquire(first.run_id, "work"))
    await driver.settle()
    assert await driver.statuses(run) == {"call": "completed"}
    await driver.submit(run, ResumeRun())
    await driver.drain()
    assert (await engine.run(run)).status is RunStatus.COMPLETED


async def test_the_items_of_a_paused_run_end_and_no_others_begin(driver: Driver) -> None:
    batch = {"for_each": {"in": "${input}", "concurrency": 1, "nodes": {"work": TASK}}}
    await driver.publish({"batch": batch, "after": {**TASK, "needs": ["batch"]}})
    run = await driver.start(b"[1, 2]")
    granted = await driver.acquire(run, "batch[0].work")
    await driver.submit(run, PauseRun())
    await driver.succeed(granted)
    await driver.settle()
    assert list(await driver.engine.queued()) == []
    assert (await driver.step(run, "batch")).status is StepStatus.WAITING
    await driver.submit(run, ResumeRun())
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_paused_run_may_be_cancelled_and_leaves_nothing_behind(driver: Driver) -> None:
    await driver.publish({"a": MINUTE, "b": TASK, "c": {**TASK, "needs": ["d"]}, "d": TASK})
    run = await driver.start()
    granted = await driver.acquire(run, "d")
    await driver.submit(run, PauseRun())
    await driver.succeed(granted)
    await driver.engine.advance(90)
    await driver.settle()
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=True)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled", "b": "cancelled", "d": "completed"}
    assert list(await driver.engine.timers()) == []
    assert not (await driver.engine.run(run)).paused


async def test_a_failure_that_nothing_catches_ends_a_paused_run(driver: Driver) -> None:
    await driver.publish({"a": TASK, "b": TASK})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, PauseRun())
    await driver.fail(granted, ErrorClass.PERMANENT)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "failed", "b": "cancelled"}
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_paused_run_passes_its_age_limit_when_it_is_resumed(driver: Driver) -> None:
    run = await paused(driver, {"a": TASK}, limits={"age": "1h"})
    await driver.engine.advance(3601)
    assert await driver.submit(run, ExpireRun()) == Stale()
    await driver.submit(run, ResumeRun())
    assert await driver.submit(run, ExpireRun()) == Applied()
    await driver.settle()


async def test_a_terminated_run_ends_at_once_and_its_steps_after_it(driver: Driver) -> None:
    await driver.publish({"a": TASK, "b": MINUTE})
    run = await driver.start()
    assert await driver.submit(run, TerminateRun("wrong")) == Cancelled(changed=True)
    assert await driver.submit(run, TerminateRun("wrong")) == Cancelled(changed=False)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled", "b": "cancelled"}
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED
    assert "run_terminated" in await driver.kinds(run)


async def test_a_run_that_ended_otherwise_is_not_terminated(driver: Driver) -> None:
    await driver.publish({"a": {"transform": 1}})
    run = await driver.start()
    assert await driver.submit(run, TerminateRun()) == Closed(RunStatus.COMPLETED)
