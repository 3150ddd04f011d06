"""Runs with exclusive keys that are retried after their keys were handed over."""

from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, PauseRun, ResumeRun, RetryRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Done
from perdure_machine.states import RunStatus
from perdure_runtime.errors import AlreadyExists, Reason
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK: dict[str, object] = {"task": {"handler": "x"}}
NODES: dict[str, object] = {"first": TASK, "a": {**TASK, "needs": ["first"]}}
NOTE: dict[str, object] = {**NODES, "note": TASK}
QUEUE = {"key": "all"}


async def failed(
    driver: Driver,
    policy: str = "queue",
    nodes: dict[str, object] = NODES,
    **members: object,
) -> UUID:
    """Return a run with a key that failed in its second node."""
    await driver.publish(nodes, exclusive={**QUEUE, "policy": policy}, **members)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "first"))
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    return run


async def finish(driver: Driver, run: UUID, *nodes: str) -> None:
    """Do these nodes well, and let what follows happen."""
    for node in nodes:
        await driver.succeed(await driver.acquire(run, node))
    await driver.settle()


async def status(driver: Driver, run: UUID) -> RunStatus:
    return (await driver.engine.run(run)).status


async def test_a_retried_run_waits_for_its_turn_behind_who_has_its_key(driver: Driver) -> None:
    run = await failed(driver)
    await driver.settle()
    other = await driver.start()
    assert await driver.submit(run, RetryRun()) == Done(changed=True)
    third = await driver.start()
    await driver.settle()
    waiting = await driver.engine.run(run)
    assert (waiting.status, waiting.pending) == (RunStatus.RUNNING, True)
    assert (await driver.statuses(run))["a"] == "failed"
    assert not await driver.engine.no_way_forward()
    assert await driver.submit(run, RetryRun()) == Done(changed=False)
    await finish(driver, other, "first", "a")
    assert (await driver.statuses(run)) == {"first": "completed", "a": "queued"}
    assert (await driver.engine.run(third)).pending
    await finish(driver, run, "a")
    assert await status(driver, run) is RunStatus.COMPLETED
    await finish(driver, third, "first", "a")
    assert list(await driver.engine.timers()) == []


async def test_a_retried_run_has_its_key_again_where_nobody_has(driver: Driver) -> None:
    run = await failed(driver)
    await driver.settle()
    await driver.submit(run, RetryRun())
    await driver.settle()
    other = await driver.start()
    assert (await driver.engine.run(other)).pending
    await finish(driver, run, "a")
    assert not (await driver.engine.run(other)).pending
    await finish(driver, other, "first", "a")


async def test_a_run_that_is_retried_before_its_hand_over_keeps_its_key(driver: Driver) -> None:
    run = await failed(driver)
    await driver.submit(run, RetryRun())
    await driver.settle()
    other = await driver.start()
    assert (await driver.engine.run(other)).pending
    await finish(driver, run, "a")
    await finish(driver, other, "first", "a")


async def test_a_run_that_does_not_wait_for_its_key_is_not_retried_while_it_is_held(
    driver: Driver,
) -> None:
    run = await failed(driver, "refuse")
    await driver.settle()
    other = await driver.start()
    with pytest.raises(AlreadyExists) as refused:
        await driver.submit(run, RetryRun())
    assert refused.value.reason == Reason.EXCLUSIVE_KEY_HELD
    assert refused.value.metadata == {"run_id": str(other)}
    assert await status(driver, run) is RunStatus.FAILED
    await driver.engine.replay(driver.org)
    await driver.settle()
    assert (await driver.kinds(run))[-1] == "replay_refused"
    await finish(driver, other, "first", "a")
    await driver.submit(run, RetryRun())
    await driver.settle()
    await finish(driver, run, "a")
    assert await status(driver, run) is RunStatus.COMPLETED


async def test_a_retried_run_replaces_who_has_its_key_where_its_policy_says_so(
    driver: Driver,
) -> None:
    run = await failed(driver, "replace")
    await driver.settle()
    other = await driver.start()
    await driver.submit(run, RetryRun())
    await driver.settle()
    assert await status(driver, other) is RunStatus.CANCELLED
    await finish(driver, run, "a")
    assert await status(driver, run) is RunStatus.COMPLETED


async def test_a_cancel_of_a_retried_run_that_waits_gives_up_its_place(driver: Driver) -> None:
    """What is to be done at such an end is done: the run has begun before."""
    run = await failed(driver, at_end=[{"on": "cancelled", "then": ["note"]}], nodes=NOTE)
    await driver.settle()
    other = await driver.start()
    await driver.submit(run, RetryRun())
    await driver.submit(run, CancelRun())
    await driver.settle()
    await finish(driver, run, "note")
    assert await status(driver, run) is RunStatus.CANCELLED
    await finish(driver, other, "first", "a")
    assert await status(driver, other) is RunStatus.COMPLETED
    assert list(await driver.engine.timers()) == []


async def test_a_pause_of_a_retried_run_that_waits_does_not_end_it(driver: Driver) -> None:
    run = await failed(driver)
    await driver.settle()
    other = await driver.start()
    for event in (RetryRun(), PauseRun(), ResumeRun()):
        await driver.submit(run, event)
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.pending) == (RunStatus.RUNNING, True)
    await finish(driver, other, "first", "a")
    await finish(driver, run, "a")
    assert await status(driver, run) is RunStatus.COMPLETED
