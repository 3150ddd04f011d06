"""Every row of the table of transitions happens on both engines, by its event alone."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, DecideEffect, Performed, Release
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import EffectOutcome, StepStatus
from perdure_machine.transitions import TABLE, Move
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")


Nodes = dict[str, object]
Act = Callable[[Driver, UUID], Awaitable[None]]

NODES: Nodes = {"a": {"task": {"handler": "x"}}}
WAIT: Nodes = {"a": {"wait": "1s", "result": "${input}"}}
CATCHING: Nodes = {"a": {"task": {"handler": "x"}, "on_failure": [{"output": 1}]}}
CATCHING_WAIT: Nodes = {
    "a": {"wait": "1s", "result": "${input.missing}", "on_failure": [{"output": 1}]}
}
LIMITED: Nodes = {"a": {"task": {"handler": "x"}, "deadline": 0.8}}
CATCHING_LIMITED: Nodes = {
    "a": {"task": {"handler": "x"}, "deadline": 0.8, "on_failure": [{"output": 1}]}
}
FAX: Nodes = {"a": {"http": {"url": "https://fax.example", "method": "POST"}}}
FAILING_WAIT: Nodes = {"a": {"wait": "1s", "result": "${input.missing}"}}


async def acquire(driver: Driver, run: UUID) -> None:
    await driver.acquire(run, "a")


async def release(driver: Driver, run: UUID) -> None:
    granted = await driver.acquire(run, "a")
    assert granted.step.lease_id is not None
    await driver.submit(run, Release(1, granted.step.fence, granted.step.lease_id))


async def lose(driver: Driver, run: UUID) -> None:
    await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()


async def complete(driver: Driver, run: UUID) -> None:
    await driver.succeed(await driver.acquire(run, "a"))


async def back_off(driver: Driver, run: UUID) -> None:
    await driver.fail(await driver.acquire(run, "a"))


async def fail(driver: Driver, run: UUID) -> None:
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)


async def retry(driver: Driver, run: UUID) -> None:
    await back_off(driver, run)
    await driver.engine.advance(2)
    await driver.fire_due()


async def end_wait(driver: Driver, run: UUID) -> None:
    await driver.engine.advance(2)
    await driver.fire_due()


async def pass_deadline(driver: Driver, run: UUID) -> None:
    await back_off(driver, run)
    await driver.engine.advance(0.9)
    await driver.fire_due()


async def pass_deadline_queued(driver: Driver, run: UUID) -> None:
    await driver.engine.advance(0.9)
    await driver.fire_due()


async def review(driver: Driver, run: UUID) -> None:
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.UNKNOWN)


async def stand(driver: Driver, run: UUID) -> None:
    await review(driver, run)
    event = DecideEffect(f"{run}/a/request", Performed(b"1"), "ann")
    await driver.submit(run, event)


async def wait_out(driver: Driver, run: UUID) -> None:
    await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.begin(await driver.acquire(run, "a"))


async def call_again(driver: Driver, run: UUID) -> None:
    await wait_out(driver, run)
    await driver.engine.advance(20)
    await driver.fire_due()


async def cancel(driver: Driver, run: UUID) -> None:
    await driver.submit(run, CancelRun())
    await driver.settle()


async def cancel_running(driver: Driver, run: UUID) -> None:
    granted = await driver.acquire(run, "a")
    await cancel(driver, run)
    await driver.fail(granted)


async def cancel_backing_off(driver: Driver, run: UUID) -> None:
    await back_off(driver, run)
    await cancel(driver, run)


Q, R, B, W, P = (
    StepStatus.QUEUED, StepStatus.RUNNING, StepStatus.BACKING_OFF, StepStatus.WAITING,
    StepStatus.PARKED,
)  # fmt: skip
CASES: list[tuple[Move, StepStatus, Nodes, Act]] = [
    (Move.ACQUIRE, Q, NODES, acquire),
    (Move.RELEASE, R, NODES, release),
    (Move.LOSE, R, NODES, lose),
    (Move.COMPLETE, R, NODES, complete),
    (Move.BACK_OFF, R, NODES, back_off),
    (Move.WAIT_OUT, R, FAX, wait_out),
    (Move.CALL_AGAIN, W, FAX, call_again),
    (Move.REVIEW, R, FAX, review),
    (Move.STAND, P, FAX, stand),
    (Move.FAIL, Q, LIMITED, pass_deadline_queued),
    (Move.FAIL, R, NODES, fail),
    (Move.FAIL, B, LIMITED, pass_deadline),
    (Move.FAIL, W, FAILING_WAIT, end_wait),
    (Move.CATCH, Q, CATCHING_LIMITED, pass_deadline_queued),
    (Move.CATCH, R, CATCHING, fail),
    (Move.CATCH, B, CATCHING_LIMITED, pass_deadline),
    (Move.CATCH, W, CATCHING_WAIT, end_wait),
    (Move.RETRY, B, NODES, retry),
    (Move.END_WAIT, W, WAIT, end_wait),
    (Move.CANCEL, Q, NODES, cancel),
    (Move.CANCEL, R, NODES, cancel_running),
    (Move.CANCEL, B, NODES, cancel_backing_off),
    (Move.CANCEL, W, WAIT, cancel),
]


@pytest.mark.parametrize(("move", "source", "nodes", "act"), CASES)
async def test_a_move_leads_to_its_target(
    driver: Driver, move: Move, source: StepStatus, nodes: Nodes, act: Act
) -> None:
    await driver.publish(nodes)
    run = await driver.start()
    await act(driver, run)
    assert (await driver.step(run, "a")).status is TABLE[move].target
