"""Tasks whose handler is chosen by the run, from a closed list; on both engines."""

import pytest
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "${nodes.ask.output}.send", "one_of": ["mail.send", "sms.send"]}}
NODES = {"ask": {"task": {"handler": "ask"}}, "send": {**TASK, "needs": ["ask"]}}


async def test_every_hand_out_names_the_handler_that_was_chosen(driver: Driver) -> None:
    await driver.publish(NODES)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "ask"), b'"sms"')
    first = await driver.acquire(run, "send")
    await driver.fail(first, ErrorClass.RETRYABLE)
    await driver.engine.advance(10)
    await driver.settle()
    assert (first.handler, (await driver.acquire(run, "send")).handler) == ("sms.send", "sms.send")


async def test_a_handler_that_is_none_of_the_list_fails_the_node_before_it_waits(
    driver: Driver,
) -> None:
    await driver.publish(NODES)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "ask"), b'"rm"')
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert state.error.code == "NOT_ONE_OF"
