"""Starts that are put off: the run exists at once and begins at its instant."""

import pytest
from perdure_machine.actions import Instant
from perdure_machine.events import CancelRun, ExpireRun, FireTimer
from perdure_machine.replies import Applied, Cancelled, Early, Stale
from perdure_machine.states import RunStatus, TimerKind
from perdure_runtime.errors import AlreadyExists, InvalidArgument
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODES: dict[str, object] = {
    "a": {"task": {"handler": "x"}}, "b": {"transform": "${input.n}"},
    "at": {"transform": "${run.started_at}"},
}  # fmt: skip
HOUR = Instant(after=3600)


async def test_a_run_that_is_put_off_exists_and_begins_at_its_instant(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start(b'{"n": 7}', begin=HOUR)
    state = await driver.engine.run(run)
    assert (state.status, state.pending) == (RunStatus.RUNNING, True)
    assert list(await driver.engine.steps(run)) == []
    (timer,) = await driver.engine.timers()
    assert timer.kind is TimerKind.BEGIN
    assert isinstance(await driver.submit(run, FireTimer(timer.timer_id)), Early)
    assert not await driver.engine.no_way_forward()
    await driver.engine.advance(3601)
    assert await driver.fire_due() == [Applied()]
    assert not (await driver.engine.run(run)).pending
    statuses = await driver.statuses(run)
    assert statuses == {"a": "queued", "b": "completed", "at": "completed"}
    assert (await driver.step(run, "b")).output == b"7"
    assert await driver.kinds(run) == [
        "run_scheduled", "run_started", "step_queued", "step_completed", "step_completed",
    ]  # fmt: skip
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_run_that_is_put_off_to_an_instant_begins_at_it(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start(b'{"n": 7}', begin=Instant(at=4_102_444_800.0))
    (timer,) = await driver.engine.timers()
    assert timer.remaining > 86_400 * 365
    await driver.engine.advance(timer.remaining + 1)
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_an_instant_that_has_passed_is_now(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start(b'{"n": 7}', begin=Instant(at=1.0))
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_the_time_of_its_beginning_is_when_a_run_started(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start(b'{"n": 7}', begin=HOUR)
    await driver.engine.advance(3601)
    await driver.fire_due()
    state = await driver.engine.run(run)
    assert state.begun_ms is not None
    seen = (await driver.step(run, "at")).output
    assert seen is not None
    await driver.drain()
    again = await driver.engine.run(run)
    assert again.begun_ms == state.begun_ms


@pytest.mark.parametrize("members", [{"deadline": "1h"}, {"limits": {"age": "1h"}}])
async def test_limits_count_from_the_beginning_of_the_run(
    driver: Driver, members: dict[str, object]
) -> None:
    await driver.publish(NODES, **members)
    run = await driver.start(b'{"n": 7}', begin=HOUR)
    await driver.engine.advance(7000)
    assert await driver.submit(run, ExpireRun()) == Stale()
    await driver.fire_due()
    await driver.engine.advance(3500)
    assert await driver.submit(run, ExpireRun()) == Stale()
    await driver.engine.advance(101)
    assert await driver.submit(run, ExpireRun()) == Applied()
    assert (await driver.engine.run(run)).status is RunStatus.TIMED_OUT


async def test_a_run_that_has_not_begun_is_cancelled_and_leaves_nothing(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start(b'{"n": 7}', begin=HOUR)
    (timer,) = await driver.engine.timers()
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=True)
    assert list(await driver.engine.timers()) == []
    await driver.engine.advance(3601)
    assert await driver.submit(run, FireTimer(timer.timer_id)) == Stale()
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED
    assert list(await driver.engine.steps(run)) == []


async def test_a_begin_and_a_cancel_in_one_batch_are_taken_in_their_order(driver: Driver) -> None:
    await driver.publish(NODES)
    for begin_first in (True, False):
        run = await driver.start(b'{"n": 7}', begin=Instant(at=1.0))
        (timer,) = await driver.engine.timers()
        events = [FireTimer(timer.timer_id), CancelRun()]
        answers = await driver.engine.submit(
            driver.org, run, *(events if begin_first else reversed(events))
        )
        assert Cancelled(changed=True) in answers
        await driver.settle()
        assert (await driver.engine.run(run)).status is RunStatus.CANCELLED
        assert bool(await driver.statuses(run)) is begin_first
        assert list(await driver.engine.timers()) == []


async def test_r5_a_run_begins_once(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start(b'{"n": 7}', begin=Instant(at=1.0))
    (timer,) = await driver.engine.timers()
    fire = FireTimer(timer.timer_id)
    assert await driver.engine.submit(driver.org, run, fire, fire) == [Applied(), Stale()]
    assert await driver.submit(run, fire) == Stale()
    assert (await driver.kinds(run)).count("run_started") == 1
    await driver.drain()


async def test_p7_a_start_key_names_the_start_with_its_instant(driver: Driver) -> None:
    await driver.publish(NODES)
    first = await driver.started(b'{"n": 7}', begin=HOUR, start_key="k")
    again = await driver.started(b'{"n": 7}', begin=HOUR, start_key="k")
    assert (first.created, again.created) == (True, False)
    assert first.run_id == again.run_id
    with pytest.raises(AlreadyExists):
        await driver.started(b'{"n": 7}', start_key="k")
    await driver.submit(first.run_id, CancelRun())


async def test_a_start_that_is_put_off_is_checked_at_once(driver: Driver) -> None:
    await driver.publish(NODES, deadline="${input.patience}")
    with pytest.raises(InvalidArgument, match="patience"):
        await driver.start(b"{}", begin=HOUR)
