"""What a definition has done when a run ends: once, after compensation, whatever comes of it."""

import json
from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, TerminateRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORK = {"task": {"handler": "x"}, "retry": {"max": 0}}
TELL = {"task": {"handler": "tell", "input": "${error.code}"}, "retry": {"max": 0}}
DROP = {"task": {"handler": "drop", "input": {"a": "${coalesce(nodes.a.output, 'none')}"}}}
AT_END = [{"on": "failed", "then": ["tell", "drop"]}, {"on": "any", "then": ["drop"]}]


async def start(driver: Driver, **members: object) -> UUID:
    await driver.publish({"a": WORK, "tell": TELL, "drop": DROP}, at_end=AT_END, **members)
    return await driver.start()


async def status(driver: Driver, run: UUID) -> RunStatus:
    return (await driver.engine.run(run)).status


async def test_at_the_end_the_nodes_of_that_end_run_once_and_read_what_happened(
    driver: Driver,
) -> None:
    run = await start(driver)
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT, "WRONG")
    assert await status(driver, run) is RunStatus.RUNNING
    tell, drop = await driver.acquire(run, "tell"), await driver.acquire(run, "drop")
    assert (tell.step.input, drop.step.input) == (b'"WRONG"', b'{"a":"none"}')
    await driver.succeed(tell)
    assert await status(driver, run) is RunStatus.RUNNING
    await driver.succeed(drop)
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert state.error.code == "WRONG"


async def test_a_run_that_completes_keeps_its_output_though_what_follows_fails(
    driver: Driver,
) -> None:
    run = await start(driver)
    await driver.succeed(await driver.acquire(run, "a"), b"[1e1]")
    assert "tell" not in await driver.statuses(run)
    await driver.fail(await driver.acquire(run, "drop"), ErrorClass.PERMANENT)
    state = await driver.engine.run(run)
    assert (state.status, state.output, state.error) == (
        RunStatus.COMPLETED, b'{"a":[1e1]}', None,
    )  # fmt: skip
    assert state.uncompensated == 0


async def test_what_is_for_the_end_comes_after_compensation(driver: Driver) -> None:
    done = {**WORK, "compensate": {"task": {"handler": "undo"}}}
    bad = {**WORK, "needs": ["a"]}
    nodes = {"a": done, "bad": bad, "tell": TELL}
    await driver.publish(nodes, at_end=[{"on": "failed", "then": ["tell"]}])
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.fail(await driver.acquire(run, "bad"), ErrorClass.PERMANENT)
    await driver.settle()
    assert "tell" not in await driver.statuses(run)
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    await driver.succeed(await driver.acquire(run, "tell"))
    assert await status(driver, run) is RunStatus.FAILED


async def test_a_cancelled_run_does_what_is_for_any_end_after_what_runs_has_ended(
    driver: Driver,
) -> None:
    run = await start(driver)
    running = await driver.acquire(run, "a")
    await driver.submit(run, CancelRun("enough"))
    await driver.settle()
    assert "drop" not in await driver.statuses(run)
    await driver.succeed(running, b"7")
    drop = await driver.acquire(run, "drop")
    assert json.loads(drop.step.input or b"") == {"a": 7}
    await driver.succeed(drop)
    assert await status(driver, run) is RunStatus.CANCELLED


async def test_a_terminated_run_does_nothing_at_its_end(driver: Driver) -> None:
    run = await start(driver)
    await driver.submit(run, TerminateRun("now"))
    await driver.settle()
    assert await status(driver, run) is RunStatus.CANCELLED
    assert "drop" not in await driver.statuses(run)


async def test_a_condition_that_is_false_leaves_a_node_out(driver: Driver) -> None:
    await driver.publish(
        {"a": WORK, "drop": {**DROP, "when": "nodes.a.status == 'failed'"}},
        at_end=[{"on": "any", "then": ["drop"]}],
    )
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    assert await status(driver, run) is RunStatus.COMPLETED
    assert (await driver.statuses(run))["drop"] == "skipped"
