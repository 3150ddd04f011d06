"""After a restore or a failover that may have lost something, nothing is called blindly (p4)."""

from __future__ import annotations

import pytest
from perdure_machine.definition.outside import EffectKind
from perdure_machine.replies import EffectBegun, EffectToLookUp, Suspended
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus
from perdure_testkit.engines.driver import Driver, beginning

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAX = {"a": {"http": {"url": "https://fax.example", "method": "POST"}, "retry": {"max": 3}}}
TASK = {"a": {"task": {"handler": "x"}}}


async def test_p4_calls_that_no_key_protects_wait_for_an_operator(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.engine.fail_over()
    assert await driver.begin(granted) == Suspended("failover")
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF
    assert await driver.engine.effects(run) == []
    await driver.engine.declare_lossless()
    await driver.engine.advance(30)
    await driver.settle()
    await driver.succeed(await driver.call(run, "a"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p4_no_call_waits_after_a_failover_that_the_operator_says_loses_nothing(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.engine.trust_failovers()
    await driver.engine.fail_over()
    await driver.succeed(await driver.call(run, "a"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p4_calls_under_a_providers_key_go_on(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    await driver.engine.fail_over()
    granted = await driver.acquire(run, "a")
    assert isinstance(await driver.begin(granted, kind=EffectKind.PROVIDER), EffectBegun)
    await driver.engine.declare_lossless()


async def test_p4_what_an_unfinished_run_never_recorded_may_have_been_performed(
    driver: Driver,
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    await driver.engine.fail_over()
    await driver.engine.raise_epoch()
    granted = await driver.acquire(run, "a")
    own = {"name": "crm", "kind": EffectKind.RECONCILE, "can_look_up": True}
    looked = beginning(granted, **own)
    key = f"{granted.step.effect_prefix}/crm"
    assert await driver.submit(run, looked) == EffectToLookUp(key)
    await driver.tell(run, looked, key, EffectOutcome.NOT_PERFORMED)
    assert isinstance(await driver.begin(granted, **own), EffectBegun)
    assert await driver.begin(granted, name="fax") == Suspended("review")
    statuses = {one.key: one.status for one in await driver.engine.effects(run)}
    assert statuses[f"{granted.step.effect_prefix}/fax"] is EffectStatus.NEEDS_REVIEW


async def test_p4_what_was_in_flight_before_the_restore_may_have_been_performed(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.call(run, "a")
    await driver.engine.fail_over()
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.engine.raise_epoch()
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("review")


async def test_p4_what_was_refused_before_the_restore_may_have_been_called_since(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.NOT_PERFORMED)
    await driver.engine.fail_over()
    await driver.engine.raise_epoch()
    await driver.engine.advance(2)
    await driver.settle()
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("review")


async def test_p4_what_was_settled_before_the_restore_stands(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    fax = beginning(granted, name="fax")
    await driver.submit(run, fax)
    key = f"{granted.step.effect_prefix}/fax"
    settled = await driver.tell(run, fax, key, EffectOutcome.PERFORMED, result=b"1")
    await driver.engine.fail_over()
    await driver.engine.raise_epoch()
    assert await driver.begin(granted, name="fax") == settled


async def test_p4_runs_that_start_after_the_epoch_was_raised_call_as_ever(driver: Driver) -> None:
    await driver.publish(FAX)
    await driver.engine.fail_over()
    await driver.engine.raise_epoch()
    await driver.engine.advance(1)
    run = await driver.start()
    await driver.succeed(await driver.call(run, "a"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
