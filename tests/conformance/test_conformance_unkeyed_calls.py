"""Calls whose provider honours no key: not repeated while somebody may have performed them (p4)."""

from __future__ import annotations

from uuid import uuid4

import pytest
from perdure_machine.events import Acquire, Release
from perdure_machine.replies import Applied, Gone
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAX = {"a": {"http": {"url": "https://fax.example", "method": "POST"}, "retry": {"max": 3}}}


async def test_r8_a_call_without_key_whose_worker_is_lost_is_not_repeated(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    assert granted.effect is not None
    assert granted.effect.kind == "none"
    await driver.engine.advance(11)
    await driver.expire_due()
    step = await driver.step(run, "a")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert step.error.code == "OUTCOME_UNKNOWN"
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.NEEDS_REVIEW, 1)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


@pytest.mark.parametrize("told", [EffectOutcome.UNKNOWN, EffectOutcome.PERFORMED])
async def test_p4_a_failed_call_without_key_is_not_repeated_unless_it_was_not_performed(
    driver: Driver, told: EffectOutcome
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), effect=told)
    assert (await driver.step(run, "a")).status is StepStatus.FAILED


async def test_p4_a_call_without_key_that_was_refused_is_tried_again(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), effect=EffectOutcome.NOT_PERFORMED)
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF
    await driver.engine.advance(2)
    await driver.fire_due()
    again = await driver.acquire(run, "a")
    assert again.effect is not None
    assert (again.effect.status, again.effect.calls) == (EffectStatus.IN_FLIGHT, 2)
    await driver.succeed(again)
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED


async def test_p4_a_key_that_its_provider_may_have_forgotten_is_not_used_again(
    driver: Driver,
) -> None:
    call = {"url": "https://pay.example", "method": "POST"}
    await driver.publish({"a": {"http": {**call, "effect": {"kind": "provider", "keep": "15s"}}}})
    run = await driver.start()
    for _ in range(2):  # the second take comes 11 s after the first call, within the 15 s
        await driver.acquire(run, "a")
        await driver.engine.advance(11)
        await driver.expire_due()
    step = await driver.step(run, "a")
    assert await driver.submit(run, Acquire(step.step, uuid4(), "w")) == Gone()
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.NEEDS_REVIEW, 2)
    failed = await driver.step(run, "a")
    assert failed.error is not None
    assert failed.error.code == "OUTCOME_UNKNOWN"
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_p4_a_hand_out_that_never_began_sends_nobody_to_a_person(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    lease_id = granted.step.lease_id
    assert lease_id is not None
    release = Release(granted.step.step, granted.step.fence, lease_id)
    assert await driver.submit(run, release) == Applied()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.REFUSED
    await driver.succeed(await driver.acquire(run, "a"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
