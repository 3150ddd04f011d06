"""What a worker is told of an outside call."""

from __future__ import annotations

import json

import pytest
from perdure_machine.states import EffectStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_worker_is_told_the_limits_of_a_call_in_seconds(driver: Driver) -> None:
    call = {"url": "u", "timeouts": {"connect": "500ms", "read": 10}, "redirects": 0}
    await driver.publish({"a": {"http": call}, "b": {"http": {"url": "u"}}})
    run = await driver.start()
    told = json.loads((await driver.acquire(run, "a")).step.input or b"")
    assert told["timeouts"] == {"connect": 0.5, "read": 10.0}
    assert told["redirects"] == 0
    plain = json.loads((await driver.acquire(run, "b")).step.input or b"")
    assert plain == {"method": "GET", "url": "u"}


async def test_a_call_declared_repeatable_records_no_effect(driver: Driver) -> None:
    await driver.publish({"a": {"http": {"url": "u", "method": "POST", "effect": "repeatable"}}})
    run = await driver.start()
    assert (await driver.acquire(run, "a")).effect is None
    assert await driver.engine.effects(run) == []


CHARGE = {"target": "pay.example:443", "service": "shop.v1.Payments", "method": "Charge"}


async def test_r12_a_worker_is_told_a_method_with_its_message_byte_for_byte(driver: Driver) -> None:
    call = {**CHARGE, "request": "${input.message}", "metadata": {"x": "${input.n}"}}
    await driver.publish({"a": {"grpc": call, "timeout": "5s"}})
    message = b'{ "cents" : 18446744073709551617 }'
    run = await driver.start(b'{"n": 7, "message": %s}' % message)
    granted = await driver.acquire(run, "a")
    assert granted.step.input == (
        b'{"target":"pay.example:443","service":"shop.v1.Payments","method":"Charge","request":'
        + message
        + b',"metadata":{"x":7}}'
    )
    assert (granted.step.kind, granted.step.lane, granted.timeout) == ("grpc", "io", 5.0)


async def test_r8_the_call_of_a_method_is_an_effect_like_any_other(driver: Driver) -> None:
    await driver.publish({"a": {"grpc": {**CHARGE, "effect": "provider"}}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    assert granted.effect is not None
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.engine.advance(2)
    await driver.fire_due()
    again = await driver.acquire(run, "a")
    assert again.effect is not None
    assert (again.effect.key, again.effect.calls) == (granted.effect.key, 2)
    await driver.succeed(again)
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED
