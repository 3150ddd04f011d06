"""Limits of a whole run: its deadline and its age, by the database's clock alone (R7)."""

import pytest
from perdure_machine.events import CancelRun, ExpireRun
from perdure_machine.replies import Applied, Stale
from perdure_machine.states import RunStatus
from perdure_runtime.errors import InvalidArgument
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODES: dict[str, object] = {"a": {"task": {"handler": "x"}}, "b": {"wait": "9d"}}


async def test_a_run_past_its_deadline_is_timed_out_with_all_that_is_in_it(driver: Driver) -> None:
    await driver.publish(NODES, deadline="2h")
    run = await driver.start()
    held = await driver.acquire(run, "a")
    await driver.engine.advance(7201)
    assert await driver.submit(run, ExpireRun()) == Applied()
    state = await driver.engine.run(run)
    assert state.error is not None
    assert (state.status, state.error.code) == (RunStatus.TIMED_OUT, "DEADLINE")
    assert await driver.fail(held) == Applied()
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled", "b": "cancelled"}
    assert list(await driver.engine.timers()) == []


@pytest.mark.parametrize("members", [{"deadline": "2h"}, {"limits": {"age": "2h"}}])
async def test_r7_a_run_that_is_not_past_its_limit_goes_on(
    driver: Driver, members: dict[str, object]
) -> None:
    await driver.publish(NODES, **members)
    run = await driver.start()
    await driver.engine.advance(7100)
    assert await driver.submit(run, ExpireRun()) == Stale()
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING


async def test_a_run_without_limits_is_never_too_late(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start()
    await driver.engine.advance(1e8)
    assert await driver.submit(run, ExpireRun()) == Stale()


async def test_a_run_past_its_age_is_too_old(driver: Driver) -> None:
    await driver.publish(NODES, deadline="3h", limits={"age": "1h"})
    run = await driver.start()
    await driver.engine.advance(3601)
    await driver.submit(run, ExpireRun())
    error = (await driver.engine.run(run)).error
    assert error is not None
    assert error.code == "RUN_TOO_OLD"


async def test_a_run_that_ended_is_not_timed_out(driver: Driver) -> None:
    await driver.publish(NODES, deadline="1h")
    run = await driver.start()
    await driver.submit(run, CancelRun())
    await driver.engine.advance(3601)
    assert await driver.submit(run, ExpireRun()) == Stale()
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED


@pytest.mark.parametrize(("given", "seconds"), [('"90m"', 5400), ("60", 60)])
async def test_an_expression_over_the_input_sets_the_deadline_of_a_run(
    driver: Driver, given: str, seconds: int
) -> None:
    await driver.publish(NODES, deadline="${input.patience}")
    run = await driver.start(f'{{"patience": {given}}}'.encode())
    await driver.engine.advance(seconds - 50)
    assert await driver.submit(run, ExpireRun()) == Stale()
    await driver.engine.advance(51)
    assert await driver.submit(run, ExpireRun()) == Applied()


async def test_a_start_whose_input_gives_the_deadline_no_value_stores_nothing(
    driver: Driver,
) -> None:
    await driver.publish(NODES, deadline="${input.patience}")
    with pytest.raises(InvalidArgument, match="patience") as refused:
        await driver.start(b"{}", start_key="k")
    assert [violation.field for violation in refused.value.violations] == ["input"]
    run = await driver.started(b'{"patience": 60}', start_key="k")
    assert run.created
