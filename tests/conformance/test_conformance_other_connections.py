"""Handlers that are refused by a connection which is not their node's own (protocol p8)."""

from __future__ import annotations

import pytest
from perdure_machine.capacity import cause_of
from perdure_machine.events import Acquire, RefusedConnection
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Gone
from perdure_machine.states import StepStatus
from perdure_testkit.engines.driver import Driver, new_lease
from perdure_testkit.engines.port import Bears

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAIN: dict[str, object] = {"task": {"handler": "x"}}
CRM = {**PLAIN, "connection": "crm"}
BILLING = {**PLAIN, "connection": "billing"}


@pytest.mark.parametrize(("node", "own"), [(PLAIN, None), (CRM, "crm")], ids=["none", "crm"])
async def test_p8_a_step_is_parked_on_the_connection_that_refused_and_not_on_its_own(
    driver: Driver, node: dict[str, object], own: str | None
) -> None:
    for name in ("crm", "billing"):
        await driver.engine.put_connection(driver.org, name, Bears())
    await driver.publish({"send": node, "other": CRM, "bill": BILLING})
    run = await driver.start()
    first = await driver.acquire(run, "send")
    refused = RefusedConnection("billing", 0)
    await driver.fail(first, ErrorClass.AUTHORISATION, refused=refused)
    step = await driver.step(run, "send")
    assert (step.status, step.failures) == (StepStatus.PARKED, 0)
    assert step.parked is not None
    assert step.parked.cause == cause_of("billing")
    await driver.succeed(await driver.acquire(run, "other"))
    bill = await driver.step(run, "bill")
    assert await driver.submit(run, Acquire(bill.step, new_lease(), "worker")) == Gone()
    await driver.engine.repair_connection(driver.org, "billing")
    await driver.settle()
    again = await driver.acquire(run, "send")
    assert (again.step.step, again.step.fence, again.connection) == (first.step.step, 2, own)


@pytest.mark.parametrize(("node", "own"), [(PLAIN, None), (CRM, "crm")], ids=["none", "crm"])
async def test_credentials_of_another_connection_that_were_replaced_meanwhile_park_nothing(
    driver: Driver, node: dict[str, object], own: str | None
) -> None:
    for name in ("crm", "billing"):
        await driver.engine.put_connection(driver.org, name, Bears())
    await driver.publish({"send": node})
    run = await driver.start()
    one = await driver.acquire(run, "send")
    await driver.engine.repair_connection(driver.org, "billing")
    await driver.fail(one, ErrorClass.AUTHORISATION, refused=RefusedConnection("billing", 1))
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED
    assert (await driver.acquire(run, "send")).connection == own


async def test_a_step_waits_for_a_connection_that_was_removed_as_it_was_refused(
    driver: Driver,
) -> None:
    await driver.publish({"send": PLAIN})
    run = await driver.start()
    refused = RefusedConnection("billing", 0)
    await driver.fail(await driver.acquire(run, "send"), ErrorClass.AUTHORISATION, refused=refused)
    assert (await driver.step(run, "send")).status is StepStatus.PARKED
    await driver.engine.put_connection(driver.org, "billing", Bears())
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "send"))
