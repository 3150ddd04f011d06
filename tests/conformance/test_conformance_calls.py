"""What a worker is told of an outside call."""

from __future__ import annotations

import json

import pytest
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
