"""Signals that runs send each other: once, by an event of the sender's own."""

from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, Emitted, FireTimer
from perdure_machine.replies import Emission, Stale
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

EMIT = {"e": {"emit": {"name": "go", "key": "k", "data": {"n": "${input.n}"}}}}


async def test_r14_an_emit_ends_at_once_and_leaves_an_internal_event(driver: Driver) -> None:
    await driver.publish(EMIT)
    run = await driver.start(b'{"n": 1}')
    step = await driver.step(run, "e")
    assert (step.status, step.output) == (StepStatus.COMPLETED, b"null")
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    (timer,) = await driver.engine.timers()
    assert (timer.kind, timer.step, timer.remaining <= 0) == (TimerKind.EMIT, None, True)


async def test_an_emit_by_key_reaches_the_run_that_waits_also_when_its_sender_has_ended(
    driver: Driver,
) -> None:
    receiver = Driver(driver.engine)
    await receiver.publish({"a": {"signal": {"name": "go", "key": "k"}}})
    waiting = await receiver.start()
    await driver.publish(EMIT)
    await driver.start(b'{"n": 1}')
    await driver.settle()
    assert (await receiver.step(waiting, "a")).output == b'{"n":1}'
    assert not await driver.engine.timers()


async def test_an_emit_to_a_run_reaches_it(driver: Driver) -> None:
    receiver = Driver(driver.engine)
    await receiver.publish({"a": {"signal": {"name": "go"}}})
    waiting = await receiver.start()
    await driver.publish({"e": {"emit": {"name": "go", "run": "${input.run}"}}})
    await driver.start(b'{"run": "%s"}' % str(waiting).encode())
    await driver.settle()
    assert (await receiver.step(waiting, "a")).output == b"null"


async def test_an_emit_by_a_key_of_the_same_run_reaches_it(driver: Driver) -> None:
    await driver.publish({**EMIT, "a": {"signal": {"name": "go", "key": "k"}}})
    run = await driver.start(b'{"n": 1}')
    await driver.settle()
    assert (await driver.step(run, "a")).output == b'{"n":1}'


async def test_r5_an_emission_that_is_sent_twice_arrives_once(driver: Driver) -> None:
    receiver = Driver(driver.engine)
    await receiver.publish({id_: {"signal": {"name": "go", "key": "k"}} for id_ in "ab"})
    waiting = await receiver.start()
    await driver.publish(EMIT)
    run = await driver.start(b'{"n": 1}')
    (timer,) = await driver.engine.timers()
    for _ in range(2):
        reply = await driver.submit(run, FireTimer(timer.timer_id))
        assert isinstance(reply, Emission)
        await driver.engine.signal(driver.org, reply.signal, reply.target)
    await driver.settle()
    assert await receiver.statuses(waiting) == {"a": "completed", "b": "waiting"}
    assert await driver.submit(run, FireTimer(timer.timer_id)) == Stale()
    assert await driver.submit(run, Emitted(timer.timer_id)) == Stale()


async def test_an_emission_survives_the_cancel_of_its_run(driver: Driver) -> None:
    await driver.publish({**EMIT, "t": {"task": {"handler": "x"}}})
    run = await driver.start(b'{"n": 1}')
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert (await driver.send_by("k", signal_id=f"emit:{run}/e")) == (False, None)


async def test_an_emission_that_nobody_can_take_is_told_in_the_history(driver: Driver) -> None:
    await driver.publish({"e": {"emit": {"name": "go", "run": str(UUID(int=7))}}})
    run = await driver.start()
    await driver.settle()
    assert (await driver.kinds(run))[-1] == "emission_refused"
    assert not await driver.engine.timers()


async def test_what_is_no_run_id_fails_the_node(driver: Driver) -> None:
    await driver.publish({"e": {"emit": {"name": "go", "run": "${input.run}"}}})
    run = await driver.start(b'{"run": "nobody"}')
    step = await driver.step(run, "e")
    assert step.error is not None
    assert step.error.code == "EXPRESSION_TYPE"
    assert not await driver.engine.timers()
