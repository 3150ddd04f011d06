"""Places at connections that outlive their lease, because a call may still be under way."""

from uuid import UUID

import pytest
from perdure_machine.events import Acquire
from perdure_machine.replies import Blocked, EffectBegun, Granted, Reply
from perdure_machine.states import EffectOutcome
from perdure_testkit.engines.driver import Driver, beginning, new_lease
from perdure_testkit.engines.port import Bears

pytestmark = pytest.mark.asyncio(loop_scope="session")

CRM = {"task": {"handler": "x"}, "connection": "crm"}


async def ask_for_other(driver: Driver, run: UUID) -> Reply:
    step = await driver.step(run, "other")
    return await driver.submit(run, Acquire(step.step, new_lease(), "worker"))


async def test_p4_a_place_outlives_its_lease_while_the_call_may_be_under_way(
    driver: Driver,
) -> None:
    await driver.engine.put_connection(driver.org, "crm", Bears(slots=1))
    await driver.publish({"send": CRM, "other": CRM})
    run = await driver.start()
    assert isinstance(await driver.begin(await driver.acquire(run, "send")), EffectBegun)
    await driver.engine.advance(11.0)
    await driver.expire_due()
    await driver.engine.mend()
    assert await driver.engine.in_use(driver.org, "crm") == 1
    assert await ask_for_other(driver, run) == Blocked()
    await driver.engine.advance(600.0)
    await driver.engine.mend()
    assert await driver.engine.in_use(driver.org, "crm") == 0
    await driver.engine.unblock()
    assert isinstance(await ask_for_other(driver, run), Granted)


async def test_p4_a_place_of_a_lost_lease_comes_back_with_the_end_of_its_call(
    driver: Driver,
) -> None:
    await driver.engine.put_connection(driver.org, "crm", Bears(slots=1))
    await driver.publish({"send": CRM})
    run = await driver.start()
    one = await driver.acquire(run, "send")
    call = beginning(one)
    begun = await driver.submit(run, call)
    assert isinstance(begun, EffectBegun)
    await driver.engine.advance(11.0)
    await driver.expire_due()
    assert await driver.engine.in_use(driver.org, "crm") == 1
    await driver.tell(run, call, begun.effect.key, EffectOutcome.PERFORMED)
    await driver.engine.mend()
    assert await driver.engine.in_use(driver.org, "crm") == 0
