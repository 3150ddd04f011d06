"""Timers that cannot be delivered: they park the steps that go on by them (protocol p5)."""

from uuid import UUID

import pytest
from perdure_machine.decide.parking import TIMER
from perdure_machine.events import CancelRun, FireTimer, ParkOnTimer, PauseRun, ResumeRun
from perdure_machine.replies import Applied, Done, Stale
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_machine.view import Parked
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.port import Timer

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
RETRIED = {**TASK, "retry": {"max": 3, "base": "1m"}}
WAIT = {"wait": "1m"}


async def timer_of(driver: Driver, run: UUID, kind: TimerKind) -> Timer:
    """Return the one timer of a kind that a run has."""
    (timer,) = [t for t in await driver.engine.timers() if (t.run_id, t.kind) == (run, kind)]
    return timer


async def waiting(driver: Driver, node: dict[str, object] | None = None) -> UUID:
    """Return a run of one node that waits for a minute, or of `node`."""
    await driver.publish({"a": node or WAIT})
    return await driver.start()


async def parked(driver: Driver, run: UUID, kind: TimerKind = TimerKind.WAIT) -> Timer:
    """Park the step whose timer is of a kind; return that."""
    timer = await timer_of(driver, run, kind)
    assert await driver.submit(run, ParkOnTimer(timer.timer_id, "it broke")) == Applied()
    return timer


async def test_p5_a_wait_whose_timer_fails_is_parked_and_a_resume_tries_it_again(
    driver: Driver,
) -> None:
    run = await waiting(driver)
    await driver.engine.advance(60)
    timer = await parked(driver, run)
    step = await driver.step(run, "a")
    assert (step.status, step.parked) == (
        StepStatus.PARKED,
        Parked(TIMER, 0, StepStatus.WAITING),
    )
    assert (await timer_of(driver, run, TimerKind.WAIT)).remaining == float("inf")
    assert not await driver.engine.no_way_forward()
    assert await driver.submit(run, FireTimer(timer.timer_id)) == Applied()
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    assert await driver.submit(run, ResumeRun("mended")) == Done(changed=True)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert await driver.kinds(run) == [
        "run_started", "step_waiting", "step_parked", "run_resumed", "step_unparked", "wait_ended",
        "run_completed",
    ]  # fmt: skip


async def test_p5_a_retry_whose_timer_fails_is_parked_and_comes_back_as_the_same_step(
    driver: Driver,
) -> None:
    run = await waiting(driver, RETRIED)
    await driver.fail(await driver.acquire(run, "a"))
    before = await driver.step(run, "a")
    await parked(driver, run, TimerKind.RETRY)
    assert not await driver.engine.no_way_forward()
    await driver.submit(run, ResumeRun())
    await driver.settle()
    back = await driver.step(run, "a")
    assert (back.step, back.status, back.failures) == (before.step, StepStatus.BACKING_OFF, 1)
    await driver.engine.advance(60)
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p5_others_of_the_run_go_on_beside_a_step_that_is_parked(driver: Driver) -> None:
    await driver.publish({"a": WAIT, "b": TASK, "c": {**TASK, "needs": ["b"]}})
    run = await driver.start()
    await parked(driver, run)
    await driver.succeed(await driver.acquire(run, "b"))
    await driver.succeed(await driver.acquire(run, "c"))
    assert await driver.statuses(run) == {"a": "parked", "b": "completed", "c": "completed"}
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ({"signal": {"name": "go", "deadline": "1m"}}, TimerKind.DEADLINE),
        ({**TASK, "deadline": "1m"}, TimerKind.DEADLINE),
        ({"run": {"workflow": "child"}}, TimerKind.START_CHILD),
        (
            {"repeat": {"max": 2, "while": "true", "every": "1m", "nodes": {"in": {"wait": "1s"}}}},
            TimerKind.WAIT,
        ),
    ],
)
async def test_p5_a_step_that_others_can_end_is_not_parked(
    driver: Driver, node: dict[str, object], kind: TimerKind
) -> None:
    run = await waiting(driver, node)
    if "repeat" in node:
        await driver.engine.advance(1)
        await driver.settle()
        found = [t for t in await driver.engine.timers() if t.kind is kind and t.step == 1]
        timer = found[0]
    else:
        timer = await timer_of(driver, run, kind)
    before = await driver.statuses(run)
    assert await driver.submit(run, ParkOnTimer(timer.timer_id, "it broke")) == Stale()
    assert await driver.statuses(run) == before
    assert (await timer_of(driver, run, kind)).remaining < float("inf")
    await driver.submit(run, CancelRun())
    await driver.settle()


async def test_p5_an_event_of_the_run_parks_nothing_and_stays(driver: Driver) -> None:
    run = await waiting(driver)
    await driver.submit(run, CancelRun())
    timer = await timer_of(driver, run, TimerKind.END_STEPS)
    assert await driver.submit(run, ParkOnTimer(timer.timer_id, "it broke")) == Stale()
    assert (await timer_of(driver, run, TimerKind.END_STEPS)).remaining <= 0
    await driver.settle()


async def test_r5_a_timer_that_was_delivered_meanwhile_parks_nothing(driver: Driver) -> None:
    run = await waiting(driver)
    timer = await timer_of(driver, run, TimerKind.WAIT)
    await driver.engine.advance(60)
    await driver.settle()
    assert await driver.submit(run, ParkOnTimer(timer.timer_id, "it broke")) == Stale()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p8_a_pause_leaves_it_parked_and_the_resume_brings_it_back(driver: Driver) -> None:
    run = await waiting(driver)
    await parked(driver, run)
    await driver.submit(run, PauseRun())
    await driver.settle()
    step = await driver.step(run, "a")
    assert step.parked == Parked(TIMER, 0, StepStatus.WAITING)
    await driver.submit(run, ResumeRun())
    await driver.settle()
    assert (await driver.step(run, "a")).status is StepStatus.WAITING
    await driver.engine.advance(60)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_paused_run_parks_on_its_pause_alone(driver: Driver) -> None:
    run = await waiting(driver)
    timer = await timer_of(driver, run, TimerKind.WAIT)
    await driver.submit(run, PauseRun())
    assert await driver.submit(run, ParkOnTimer(timer.timer_id, "it broke")) == Stale()


async def test_a_cancel_ends_what_is_parked_with_its_timer(driver: Driver) -> None:
    run = await waiting(driver)
    await parked(driver, run)
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled"}
    assert await driver.engine.timers() == []


async def test_a_resume_of_a_run_in_which_nothing_is_parked_changes_nothing(
    driver: Driver,
) -> None:
    run = await waiting(driver)
    assert await driver.submit(run, ResumeRun()) == Done(changed=False)
    assert "run_resumed" not in await driver.kinds(run)
