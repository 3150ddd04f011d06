"""Deadlines of nodes: whatever a node is doing, its time ends it."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from perdure_machine.events import Acquire, CancelRun, FireTimer
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Early, Gone, Stale
from perdure_machine.states import (
    AttemptOutcome,
    EffectOutcome,
    EffectStatus,
    RunStatus,
    StepStatus,
    TimerKind,
)
from perdure_testkit.engines.driver import Driver, lease_of, new_lease, offer_of, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

Nodes = dict[str, object]
Act = Callable[[Driver, UUID], Awaitable[None]]

TASK: Nodes = {"task": {"handler": "x"}}
LIMITED: Nodes = {**TASK, "deadline": "60s"}
CAUGHT: Nodes = {
    **LIMITED, "on_failure": [{"when": "error.code == 'DEADLINE'", "output": "${error.class}"}],
}  # fmt: skip


async def pass_deadline(driver: Driver, seconds: float = 61) -> None:
    await driver.engine.advance(seconds)
    await driver.fire_due()


async def deadlines(driver: Driver) -> list[int | None]:
    timers = await driver.engine.timers()
    return [timer.step for timer in timers if timer.kind is TimerKind.DEADLINE]


async def assert_too_late(driver: Driver, run: UUID) -> None:
    step = await driver.step(run, "a")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert (step.error.code, step.error.category) == ("DEADLINE", ErrorClass.PERMANENT)
    assert "60 s" in step.error.message
    state = await driver.engine.run(run)
    assert (state.status, state.error) == (RunStatus.FAILED, step.error)
    assert list(await driver.engine.timers()) == []
    assert list(await driver.engine.queued()) == []


async def queue(driver: Driver, run: UUID) -> None:
    """It waits for a worker from its beginning on."""


async def hold(driver: Driver, run: UUID) -> None:
    await driver.acquire(run, "a")


async def back_off(driver: Driver, run: UUID) -> None:
    await driver.fail(await driver.acquire(run, "a"), retry_after=3600)


@pytest.mark.parametrize("act", [queue, hold, back_off])
async def test_a_node_fails_at_its_deadline_whatever_it_is_doing(driver: Driver, act: Act) -> None:
    await driver.publish({"a": LIMITED})
    run = await driver.start()
    await act(driver, run)
    await pass_deadline(driver)
    await assert_too_late(driver, run)


async def test_a_wait_longer_than_its_deadline_fails_at_it(driver: Driver) -> None:
    await driver.publish({"a": {"wait": "1h", "deadline": 60}})
    run = await driver.start()
    await pass_deadline(driver)
    await assert_too_late(driver, run)


async def test_a_deadline_is_early_before_its_time(driver: Driver) -> None:
    await driver.publish({"a": LIMITED})
    run = await driver.start()
    (timer,) = await driver.engine.timers()
    assert (timer.kind, timer.step) == (TimerKind.DEADLINE, 1)
    reply = await driver.submit(run, FireTimer(timer.timer_id))
    assert isinstance(reply, Early)
    assert 55 < reply.remaining <= 60
    await driver.drain()


@pytest.mark.parametrize(("value", "seconds"), [('"90s"', 90), ("1.5", 1.5)])
async def test_an_expression_sets_the_deadline_when_the_node_begins(
    driver: Driver, value: str, seconds: float
) -> None:
    nodes: Nodes = {"go": TASK, "a": {**TASK, "needs": ["go"], "deadline": "${input.patience}"}}
    await driver.publish(nodes)
    run = await driver.start(f'{{"patience": {value}}}'.encode())
    await driver.engine.advance(1000)
    await driver.succeed(await driver.acquire(run, "go"))
    (timer,) = await driver.engine.timers()
    assert seconds - 1 < timer.remaining <= seconds
    await driver.drain()


async def test_a_deadline_without_a_value_fails_the_node_at_its_beginning(driver: Driver) -> None:
    await driver.publish({"a": {**TASK, "deadline": "${input.patience}"}})
    run = await driver.start(b'{"patience": "soon"}')
    step = await driver.step(run, "a")
    assert step.error is not None
    assert (step.status, step.error.code) == (StepStatus.FAILED, "EXPRESSION_TYPE")


async def test_a_deadline_that_passed_may_be_caught(driver: Driver) -> None:
    nodes: Nodes = {"a": CAUGHT, "b": {"needs": ["a"], "transform": "${nodes.a.output}"}}
    await driver.publish(nodes)
    run = await driver.start()
    await pass_deadline(driver)
    assert (await driver.engine.run(run)).output == b'{"b":"permanent"}'


async def test_a_deadline_is_of_all_tries_and_a_timeout_of_one(driver: Driver) -> None:
    await driver.publish({"a": {**LIMITED, "timeout": "5s", "retry": {"max": 9, "base": "1s"}}})
    run = await driver.start()
    await driver.acquire(run, "a")
    await driver.engine.advance(6)
    assert await driver.expire_due() == [Applied()]
    step = await driver.step(run, "a")
    assert step.error is not None
    assert (step.status, step.error.code) == (StepStatus.BACKING_OFF, "TIMEOUT")
    await driver.engine.advance(55)
    await driver.fire_due()
    await assert_too_late(driver, run)


async def test_r6_at_its_deadline_a_running_step_loses_its_lease(driver: Driver) -> None:
    await driver.publish({"a": LIMITED})
    run = await driver.start()
    held = await driver.acquire(run, "a")
    assert await driver.engine.renew(driver.org, lease_of(held)) is not None
    await pass_deadline(driver)
    (attempt,) = await driver.engine.attempts(run)
    assert (attempt.fence, attempt.outcome) == (1, AttemptOutcome.TIMED_OUT)
    assert await driver.engine.renew(driver.org, lease_of(held)) is None
    assert await driver.succeed(held) == Stale()
    await assert_too_late(driver, run)


@pytest.mark.parametrize("effect", ["provider", "none"])
async def test_r8_an_effect_in_flight_at_the_deadline_is_unknown_until_a_late_report_settles_it(
    driver: Driver, effect: str
) -> None:
    call = {"url": "https://pay.example", "method": "POST", "effect": effect}
    await driver.publish({"a": {"http": call, "deadline": "60s"}})
    run = await driver.start()
    held = await driver.call(run, "a")
    await pass_deadline(driver)
    unknown = [EffectStatus.OUTCOME_UNKNOWN]
    assert [one.status for one in await driver.engine.effects(run)] == unknown
    assert await driver.succeed(held, effect=EffectOutcome.PERFORMED) == Stale()
    assert [one.status for one in await driver.engine.effects(run)] == [EffectStatus.SETTLED]
    await assert_too_late(driver, run)


async def test_a_node_that_ended_in_time_has_no_deadline_any_more(driver: Driver) -> None:
    nodes: Nodes = {
        "a": LIMITED, "b": {**TASK, "needs": ["a"], "deadline": 60},
        "w": {"wait": 1, "deadline": 60},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    held = await driver.acquire(run, "a")
    assert len(await deadlines(driver)) == 2
    await driver.succeed(held, offer=offer_of("io:acme"))
    await pass_deadline(driver, 2)
    assert (await driver.step(run, "b")).status is StepStatus.RUNNING
    assert await deadlines(driver) == [(await driver.step(run, "b")).step]
    held = await driver.acquire(run, "b", (await driver.step(run, "b")).lease_id)
    await driver.succeed(held)
    assert list(await driver.engine.timers()) == []


async def test_a_report_and_the_deadline_in_one_batch_are_taken_in_their_order(
    driver: Driver,
) -> None:
    for report_first in (True, False):
        await driver.publish({"a": LIMITED})
        run = await driver.start()
        held = await driver.acquire(run, "a")
        await driver.engine.advance(61)
        (timer,) = await driver.engine.timers()
        events = [success(held), FireTimer(timer.timer_id)]
        answers = await driver.engine.submit(
            driver.org, run, *(events if report_first else reversed(events))
        )
        status = (await driver.engine.run(run)).status
        if report_first:
            assert (answers[0], status) == (Applied(), RunStatus.COMPLETED)
        else:
            assert (answers, status) == ([Applied(), Stale()], RunStatus.FAILED)
        assert list(await driver.engine.timers()) == []


async def test_deadlines_of_a_cancelled_run_end_with_its_steps(driver: Driver) -> None:
    await driver.publish({"a": LIMITED, "b": LIMITED, "c": {"wait": "1h", "deadline": "2h"}})
    run = await driver.start()
    held = await driver.acquire(run, "b")
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert await deadlines(driver) == [held.step.step]
    await driver.succeed(held)
    assert list(await driver.engine.timers()) == []


async def test_the_deadline_of_a_step_whose_run_closed_does_nothing(driver: Driver) -> None:
    await driver.publish({"a": LIMITED})
    run = await driver.start()
    await driver.acquire(run, "a")
    await driver.submit(run, CancelRun())
    await pass_deadline(driver)
    assert (await driver.step(run, "a")).status is StepStatus.RUNNING
    await driver.expire_due()
    assert (await driver.step(run, "a")).status is StepStatus.CANCELLED
    assert list(await driver.engine.timers()) == []


async def test_a_step_that_is_told_to_stop_ends_cancelled_at_its_deadline(driver: Driver) -> None:
    nodes: Nodes = {
        "bad": TASK,
        "clean": {**TASK, "needs": ["bad"], "join": "settled"},
        "a": LIMITED,
    }
    await driver.publish(nodes)
    run = await driver.start()
    held = await driver.acquire(run, "a")
    await driver.fail(await driver.acquire(run, "bad"), ErrorClass.PERMANENT)
    await driver.settle()
    await pass_deadline(driver)
    assert (await driver.step(run, "a")).status is StepStatus.CANCELLED
    assert await driver.succeed(held) == Stale()
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_step_past_its_deadline_is_nobodys(driver: Driver) -> None:
    await driver.publish({"a": CAUGHT, "b": {**TASK, "needs": ["a"]}})
    run = await driver.start()
    await pass_deadline(driver)
    assert await driver.submit(run, Acquire(1, new_lease(), "worker")) == Gone()
    await driver.drain()


async def test_the_history_tells_of_a_deadline_that_passed(driver: Driver) -> None:
    await driver.publish({"a": LIMITED})
    run = await driver.start()
    await pass_deadline(driver)
    assert (await driver.kinds(run))[-2:] == ["step_failed", "run_failed"]


INSIDE: Nodes = {"i": TASK, "w": {"wait": "1h"}}


async def test_a_whole_that_passes_its_deadline_stops_what_is_inside_and_fails(
    driver: Driver,
) -> None:
    nodes: Nodes = {
        "a": {"group": {"nodes": INSIDE}, "deadline": "60s", "retry": {"on": ["permanent"]}},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    held = await driver.acquire(run, "a[0].i")
    await pass_deadline(driver)
    assert await driver.statuses(run) == {
        "a": "waiting", "a[0].i": "running", "a[0].w": "cancelled",
    }  # fmt: skip
    assert await driver.fail(held) == Applied()
    await assert_too_late(driver, run)
    assert (await driver.statuses(run))["a[0].i"] == "cancelled"


async def test_a_whole_keeps_its_deadline_over_its_tries(driver: Driver) -> None:
    nodes: Nodes = {
        "a": {"group": {"nodes": {"i": TASK}}, "deadline": "60s",
              "retry": {"on": ["permanent"], "max": 9, "base": "5s"}},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a[0].i"), ErrorClass.PERMANENT)
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF
    assert len(await deadlines(driver)) == 1
    await pass_deadline(driver)
    await assert_too_late(driver, run)


async def test_a_deadline_inside_of_a_whole_is_of_that_node(driver: Driver) -> None:
    nodes: Nodes = {
        "a": {"group": {"nodes": {"i": {**TASK, "deadline": "60s"}}},
              "on_failure": [{"output": "${error.node} ${error.code}"}]},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    await driver.acquire(run, "a[0].i")
    await pass_deadline(driver)
    assert (await driver.engine.run(run)).output == b'{"a":"i DEADLINE"}'
    assert list(await driver.engine.timers()) == []


async def test_a_step_of_a_whole_that_stops_ends_cancelled_at_its_deadline(
    driver: Driver,
) -> None:
    nodes: Nodes = {
        "a": {"group": {"nodes": {"i": {**TASK, "deadline": "90s"}}}, "deadline": "60s"},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    held = await driver.acquire(run, "a[0].i")
    await pass_deadline(driver)
    assert (await driver.step(run, "a[0].i")).status is StepStatus.RUNNING
    await pass_deadline(driver, 30)
    assert (await driver.step(run, "a[0].i")).status is StepStatus.CANCELLED
    assert await driver.succeed(held) == Stale()
    await assert_too_late(driver, run)


async def test_a_node_whose_child_takes_too_long_fails_and_the_child_is_cancelled(
    driver: Driver,
) -> None:
    child = Driver(driver.engine)
    await child.publish({"work": TASK})
    await driver.publish({"a": {"run": {"workflow": child.workflow}, "deadline": "60s"}})
    run = await driver.start()
    await driver.settle()
    (below,) = await driver.engine.children(run)
    assert below.run_id is not None
    await pass_deadline(driver)
    await driver.settle()
    assert (await driver.step(run, "a")).status is StepStatus.FAILED
    assert (await driver.engine.run(below.run_id)).status is RunStatus.CANCELLED
