"""Children that are tried again, and such that take too long."""

from uuid import UUID

import pytest
import pytest_asyncio
from perdure_machine.events import RetryRun, TellOfChild
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import ChildUnwanted
from perdure_machine.states import ChildStatus, RunStatus, StepStatus, TimerKind
from perdure_testkit.engines.calling import asked
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.port import Engine

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x", "input": "${input}"}}


@pytest_asyncio.fixture(loop_scope="session")
async def child(engine: Engine) -> Driver:
    """Somebody who drives the runs of the child's workflow."""
    child = Driver(engine)
    await child.publish({"work": TASK}, output="${nodes.work.output}")
    return child


async def start(parent: Driver, child: Driver, rule: str = "cancel", **more: object) -> UUID:
    """Start a run that calls the child and needs it."""
    call = {"workflow": child.workflow, "input": "${input}", "on_parent_end": rule}
    await parent.publish({"call": {"run": call, **more}}, output="${nodes.call.output}")
    return await parent.start(b'{"n": 1}')


async def child_of(parent: Driver, run: UUID) -> UUID:
    """Let what is due happen; return the child that the step has now."""
    await parent.settle()
    (child,) = await parent.engine.children(run)
    assert child.run_id is not None
    return child.run_id


async def test_a_retry_starts_another_child_with_the_same_input(
    driver: Driver, child: Driver
) -> None:
    run = await start(driver, child, retry={"max": 1, "base": "10s", "on": ["GONE"]})
    first = await child_of(driver, run)
    await child.fail(await child.acquire(first, "work"), ErrorClass.PERMANENT, "GONE")
    await driver.settle()
    assert (await driver.step(run, "call")).status is StepStatus.BACKING_OFF
    await driver.engine.advance(10)
    second = await child_of(driver, run)
    assert second != first
    granted = await child.acquire(second, "work")
    assert granted.step.input == b'{"n": 1}'
    await child.succeed(granted, b"7")
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b"7")
    assert (await driver.step(run, "call")).failures == 1


async def test_a_child_that_fails_once_too_often_fails_its_node(
    driver: Driver, child: Driver
) -> None:
    run = await start(driver, child, retry={"max": 1, "base": "10s", "on": ["GONE"]})
    for _ in range(2):
        of_child = await child_of(driver, run)
        await child.fail(await child.acquire(of_child, "work"), ErrorClass.PERMANENT, "GONE")
        await driver.settle()
        await driver.engine.advance(10)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert (await driver.step(run, "call")).failures == 2


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ("cancel", RunStatus.CANCELLED),
        ("wait", RunStatus.CANCELLED),
        ("abandon", RunStatus.RUNNING),
    ],
)
async def test_a_child_that_takes_too_long_is_cancelled_unless_it_is_abandoned(
    driver: Driver, child: Driver, rule: str, status: RunStatus
) -> None:
    run = await start(driver, child, rule, timeout="30s")
    of_child = await child_of(driver, run)
    await driver.engine.advance(30)
    await driver.settle()
    error = (await driver.step(run, "call")).error
    assert error is not None
    assert (error.category, error.code) == ("retryable", "TIMEOUT")
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert (await driver.engine.run(of_child)).status is status


async def test_a_child_that_takes_too_long_is_tried_again_by_the_rule(
    driver: Driver, child: Driver
) -> None:
    run = await start(driver, child, timeout="30s", retry={"max": 1, "base": "10s"})
    first = await child_of(driver, run)
    await driver.engine.advance(30)
    await driver.settle()
    await driver.engine.advance(10)
    second = await child_of(driver, run)
    assert second != first
    await child.succeed(await child.acquire(second, "work"), b"7")
    await driver.settle()
    assert (await driver.engine.run(first)).status is RunStatus.CANCELLED
    assert (await driver.engine.run(run)).output == b"7"


async def test_a_start_that_took_longer_than_the_try_leads_to_a_cancelled_child(
    driver: Driver, child: Driver
) -> None:
    run = await start(driver, child, timeout="30s", retry={"max": 1, "base": "10s"})
    asking = await asked(driver, run)
    started = await asking.begun()
    await driver.engine.advance(30)
    (late,) = [t for t in await driver.engine.timers() if t.kind is TimerKind.TIMEOUT]
    await driver.engine.fire(late)
    assert isinstance(await asking.ask_again(), ChildUnwanted)
    await driver.submit(run, TellOfChild(asking.timer.timer_id, started))
    await driver.engine.advance(10)
    second = await child_of(driver, run)
    assert second != started.run_id
    assert (await driver.engine.run(started.run_id)).status is RunStatus.CANCELLED
    (kept,) = await driver.engine.children(run)
    assert (kept.run_id, kept.status) == (second, ChildStatus.RUNNING)


async def test_a_start_that_is_told_after_its_childs_failure_takes_nothing_from_the_next_try(
    driver: Driver, child: Driver
) -> None:
    """The end overtook the word of the start; the old word is about a key of its own."""
    run = await start(driver, child, retry={"max": 1, "base": "10s", "on": ["GONE"]})
    asking = await asked(driver, run)
    first = await asking.begun()
    await child.fail(await child.acquire(first.run_id, "work"), ErrorClass.PERMANENT, "GONE")
    (end,) = [t for t in await driver.engine.timers() if t.kind is TimerKind.CHILD_ENDED]
    await driver.engine.fire(end)
    assert (await driver.step(run, "call")).status is StepStatus.BACKING_OFF
    await driver.settle()
    await driver.engine.advance(10)
    second = await child_of(driver, run)
    assert second != first.run_id
    await child.succeed(await child.acquire(second, "work"), b"7")
    await driver.settle()
    assert (await driver.engine.run(run)).output == b"7"


async def test_a_retried_run_whose_new_child_fails_fails_again_f122(
    driver: Driver, child: Driver
) -> None:
    """What the first child came to is not told again, neither as it was nor as a success."""
    run = await start(driver, child)
    for code in ("FIRST", "SECOND"):
        of_child = await child_of(driver, run)
        await child.fail(await child.acquire(of_child, "work"), ErrorClass.PERMANENT, code)
        await driver.settle()
        error = (await driver.step(run, "call")).error
        assert error is not None
        assert error.code == code
        assert (await driver.engine.run(run)).status is RunStatus.FAILED
        await driver.submit(run, RetryRun())
    await child.succeed(await child.acquire(await child_of(driver, run), "work"), b"7")
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b"7")
