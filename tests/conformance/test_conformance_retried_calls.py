"""Calls of a whole that is tried again: settled ones stand, unknown ones are not repeated (R8)."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from perdure_machine.events import Acquire
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, EffectSettled, Gone, Granted, Suspended
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus
from perdure_testkit.engines.driver import Driver, offer_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
RETRY = {"max": 1, "base": "1s", "on": ["BROKEN", "OUTCOME_UNKNOWN", "TIMEOUT"]}


def paying(effect: str, **members: Any) -> dict[str, Any]:
    """A group that pays between two tasks."""
    pay = {"http": {"url": "https://pay.example", "method": "POST", "effect": effect}}
    nodes = {"a": TASK, "pay": {**pay, "needs": ["a"]}, "z": {**TASK, "needs": ["pay"]}}
    return {"g": {"group": {"nodes": nodes}, "retry": RETRY, **members}}


async def try_again(driver: Driver, run: UUID) -> None:
    """Let the time for the next try of the whole come, and do its first task."""
    await driver.engine.advance(2)
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "g[0].a"))


async def ask_for(driver: Driver, run: UUID, path: str) -> object:
    step = await driver.step(run, path)
    return await driver.submit(run, Acquire(step.step, uuid4(), "w"))


async def test_r8_a_settled_call_stands_when_its_whole_is_tried_again(driver: Driver) -> None:
    await driver.publish(paying("provider"))
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"))
    await driver.succeed(await driver.acquire(run, "g[0].pay"), b'{"paid": 12345678901234567890}')
    await driver.fail(await driver.acquire(run, "g[0].z"), ErrorClass.PERMANENT)
    await try_again(driver, run)
    assert isinstance(await ask_for(driver, run, "g[0].pay"), Gone)
    stands = await driver.step(run, "g[0].pay")
    assert (stands.status, stands.output) == (
        StepStatus.COMPLETED,
        b'{"paid": 12345678901234567890}',
    )
    assert "step_stands" in await driver.kinds(run)
    await driver.succeed(await driver.acquire(run, "g[0].z"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    (settled,) = await driver.engine.effects(run)
    assert (settled.status, settled.calls) == (EffectStatus.SETTLED, 1)


async def test_r8_a_begun_call_that_was_settled_stands_when_its_whole_is_tried_again(
    driver: Driver,
) -> None:
    """Its next holder asks, and is told what it came to, byte for byte."""
    await driver.publish(paying("none"))
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"))
    paid = b'{"paid": 12345678901234567890}'
    await driver.succeed(await driver.call(run, "g[0].pay"), paid)
    await driver.fail(await driver.acquire(run, "g[0].z"), ErrorClass.PERMANENT)
    await try_again(driver, run)
    again = await driver.acquire(run, "g[0].pay")
    assert await driver.begin(again) == EffectSettled(f"{run}/g[0]/pay/request", paid)
    await driver.succeed(again, paid)
    await driver.succeed(await driver.acquire(run, "g[0].z"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    (settled,) = await driver.engine.effects(run)
    assert (settled.status, settled.calls) == (EffectStatus.SETTLED, 1)


async def test_r8_a_call_of_unknown_outcome_is_not_made_again_by_the_next_try_of_its_whole(
    driver: Driver,
) -> None:
    await driver.publish(paying("none", timeout="60s"))
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"))
    await driver.call(run, "g[0].pay")
    await driver.engine.advance(61)  # the whole times out, and its call is lost
    await driver.settle()
    await try_again(driver, run)
    again = await driver.acquire(run, "g[0].pay")
    assert await driver.begin(again) == Suspended("review")
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.NEEDS_REVIEW, 1)


async def test_r8_a_call_that_was_performed_and_whose_result_is_lost_is_not_made_again(
    driver: Driver,
) -> None:
    await driver.publish(paying("none"))
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"))
    await driver.fail(await driver.call(run, "g[0].pay"), effect=EffectOutcome.PERFORMED)
    await try_again(driver, run)
    again = await driver.acquire(run, "g[0].pay")
    assert await driver.begin(again) == EffectSettled(f"{run}/g[0]/pay/request", None)
    await driver.fail(again, ErrorClass.PERMANENT, "OUTCOME_UNKNOWN")
    state = await driver.engine.run(run)
    assert state.error is not None
    assert (state.status, state.error.code) == (RunStatus.FAILED, "OUTCOME_UNKNOWN")


async def test_r8_a_call_that_was_refused_is_made_again_under_its_key(driver: Driver) -> None:
    await driver.publish(paying("none"))
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"))
    first = await driver.call(run, "g[0].pay")
    refused = EffectOutcome.NOT_PERFORMED
    await driver.fail(first, ErrorClass.PERMANENT, effect=refused)
    await try_again(driver, run)
    await driver.succeed(await driver.call(run, "g[0].pay"))
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.SETTLED, 2)
    await driver.succeed(await driver.acquire(run, "g[0].z"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_call_of_a_whole_that_is_tried_again_is_not_chained_but_queued(
    driver: Driver,
) -> None:
    """What its key came to is read when it is acquired."""
    await driver.publish(paying("provider"))
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"))
    await driver.succeed(await driver.acquire(run, "g[0].pay"))
    await driver.fail(await driver.acquire(run, "g[0].z"), ErrorClass.PERMANENT)
    await driver.engine.advance(2)
    await driver.settle()
    again = await driver.acquire(run, "g[0].a")
    assert await driver.succeed(again, offer=offer_of("io:shared", "io:acme")) == Applied()
    assert (await driver.step(run, "g[0].pay")).status is StepStatus.QUEUED
    assert isinstance(await ask_for(driver, run, "g[0].pay"), Gone)


async def test_r8_a_lost_holder_of_the_try_before_cannot_refuse_the_call_of_this_one(
    driver: Driver,
) -> None:
    """Both hold fence 1, each of a step of its own."""
    await driver.publish(paying("none", timeout="5s"))
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"))
    lost = await driver.call(run, "g[0].pay")
    await driver.fail(lost, ErrorClass.PERMANENT, effect=EffectOutcome.NOT_PERFORMED)
    await try_again(driver, run)
    now = await driver.call(run, "g[0].pay")
    assert (now.step.fence, lost.step.fence) == (1, 1)
    await driver.fail(lost, ErrorClass.PERMANENT, effect=EffectOutcome.NOT_PERFORMED)
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.IN_FLIGHT


async def test_r8_each_item_of_a_loop_that_is_tried_again_has_a_call_of_its_own_that_stands(
    driver: Driver,
) -> None:
    pay = {"http": {"url": "https://pay.example", "method": "POST", "effect": "provider"}}
    nodes = {"pay": pay, "z": {**TASK, "needs": ["pay"]}}
    loop = {"in": "${input.list}", "nodes": nodes}
    await driver.publish({"g": {"for_each": loop, "retry": {"max": 1, "on": ["ITEMS_FAILED"]}}})
    run = await driver.start(json.dumps({"list": [1, 2]}).encode())
    await driver.succeed(await driver.acquire(run, "g[0].pay"), b"1")
    await driver.fail(await driver.acquire(run, "g[0].z"), ErrorClass.PERMANENT)
    await driver.engine.advance(2)
    await driver.settle()
    assert isinstance(await ask_for(driver, run, "g[0].pay"), Gone)
    assert isinstance(await ask_for(driver, run, "g[1].pay"), Granted)
