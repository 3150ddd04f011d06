"""Effects that an expression names: what the name tells apart, and that it stays (R8)."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from perdure_machine.events import RetryRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import EffectBegun, EffectSettled
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
PERMANENT = ErrorClass.PERMANENT


def paying(effect: str, name: object = "${input.invoice}", **members: Any) -> dict[str, Any]:
    http = {"url": "https://pay.example", "method": "POST", "effect": effect}
    return {"http": http, "effect_key": name, **members}


async def paid_in_a_whole(driver: Driver, effect: str, first: bytes, then: bytes) -> UUID:
    """Pay under the name `first` in a group that fails and is tried again; there name it `then`."""
    pay = paying(effect, "${nodes.a.output}", needs=["a"])
    nodes = {"a": TASK, "pay": pay, "z": {**TASK, "needs": ["pay"]}}
    retry = {"max": 1, "base": "1s", "on": ["BROKEN"]}
    await driver.publish({"g": {"group": {"nodes": nodes}, "retry": retry}})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"), first)
    await driver.succeed(await driver.call(run, "g[0].pay"), b'{"n": 1}')
    await driver.fail(await driver.acquire(run, "g[0].z"), PERMANENT)
    await driver.engine.advance(2)
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "g[0].a"), then)
    return run


async def keys(driver: Driver, run: UUID) -> dict[str, EffectStatus]:
    """Return the effects of a run by their keys, without its id."""
    effects = await driver.engine.effects(run)
    return {one.key.removeprefix(f"{run}/"): one.status for one in effects}


async def test_r8_an_expression_names_the_effect_that_rides_with_its_step(driver: Driver) -> None:
    await driver.publish({"pay": paying("provider")})
    run = await driver.start(b'{"invoice": 1842}')
    granted = await driver.acquire(run, "pay")
    assert granted.effect is not None
    assert granted.effect.key == f"{run}/pay:1842/request"
    await driver.succeed(granted, effect=EffectOutcome.PERFORMED)
    assert await keys(driver, run) == {"pay:1842/request": EffectStatus.SETTLED}


async def test_r8_every_try_has_the_name_that_its_step_began_with(driver: Driver) -> None:
    await driver.publish({"pay": paying("provider", retry={"max": 2, "base": "1s"})})
    run = await driver.start(b'{"invoice": "INV-7"}')
    await driver.fail(await driver.acquire(run, "pay"), effect=EffectOutcome.UNKNOWN)
    await driver.engine.advance(5)
    await driver.settle()
    await driver.acquire(run, "pay")
    await driver.engine.advance(3600)
    await driver.settle()
    granted = await driver.acquire(run, "pay")
    assert granted.effect is not None
    assert (granted.effect.key, granted.effect.calls) == (f"{run}/pay:INV-7/request", 3)


@pytest.mark.parametrize("effect", ["provider", "none"])
async def test_r8_a_retry_of_the_run_keeps_the_name_whatever_the_expression_gives_then(
    driver: Driver, effect: str
) -> None:
    pay = paying(effect, "${nodes.look.status}", needs=["look"], join="settled")
    await driver.publish({"look": {**TASK, "retry": {"max": 0}}, "pay": pay})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "look"), PERMANENT)
    await driver.fail(await driver.call(run, "pay"), PERMANENT, effect=EffectOutcome.NOT_PERFORMED)
    await driver.submit(run, RetryRun())
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "look"))
    await driver.succeed(await driver.call(run, "pay"), effect=EffectOutcome.PERFORMED)
    assert await keys(driver, run) == {"pay:failed/request": EffectStatus.SETTLED}


async def test_r8_a_whole_that_is_tried_again_does_not_repeat_a_call_of_the_same_name(
    driver: Driver,
) -> None:
    run = await paid_in_a_whole(driver, "none", b'"A"', b'"A"')
    key = f"{run}/g[0]/pay:A/request"
    again = await driver.acquire(run, "g[0].pay")
    assert await driver.begin(again) == EffectSettled(key, b'{"n": 1}')


async def test_r8_a_whole_that_is_tried_again_makes_a_call_of_another_name(driver: Driver) -> None:
    run = await paid_in_a_whole(driver, "none", b'"A"', b'"B"')
    await driver.succeed(await driver.call(run, "g[0].pay"))
    assert await keys(driver, run) == {
        "g[0]/pay:A/request": EffectStatus.SETTLED,
        "g[0]/pay:B/request": EffectStatus.SETTLED,
    }


async def test_p4_another_request_under_the_name_of_an_earlier_call_is_refused(
    driver: Driver,
) -> None:
    pay = paying("none", "${nodes.a.output}", needs=["a"])
    retry = {"max": 1, "base": "1s", "on": ["BROKEN"]}
    await driver.publish({"g": {"group": {"nodes": {"a": TASK, "pay": pay}}, "retry": retry}})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "g[0].a"), b'"A"')
    granted = await driver.acquire(run, "g[0].pay")
    assert isinstance(await driver.begin(granted, digest=b"one"), EffectBegun)
    await driver.fail(granted, PERMANENT, effect=EffectOutcome.NOT_PERFORMED)
    await driver.engine.advance(2)
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "g[0].a"), b'"A"')
    again = await driver.acquire(run, "g[0].pay")
    with pytest.raises(FailedPrecondition) as refused:
        await driver.begin(again, digest=b"other")
    assert refused.value.reason is Reason.EFFECT_MISMATCH
    assert refused.value.metadata["key"] == f"{run}/g[0]/pay:A/request"


async def test_r8_two_nodes_that_name_their_calls_alike_make_two_calls(driver: Driver) -> None:
    await driver.publish({"pay": paying("none", "A"), "book": paying("provider", "A")})
    run = await driver.start()
    for node in ("pay", "book"):
        await driver.succeed(await driver.call(run, node), effect=EffectOutcome.PERFORMED)
    assert await keys(driver, run) == {
        "book:A/request": EffectStatus.SETTLED,
        "pay:A/request": EffectStatus.SETTLED,
    }


@pytest.mark.parametrize("name", [None, True, 1.5, "", "a/b", "a b", "é", "x" * 201, ["a"]])
async def test_a_node_whose_effect_cannot_be_named_so_fails_before_anything_is_called(
    driver: Driver, name: object
) -> None:
    await driver.publish({"pay": paying("none")})
    run = await driver.start(json.dumps({"invoice": name}).encode())
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert "an effect's name is a text of 1 to 200 visible" in state.error.message
    assert await driver.engine.effects(run) == []


async def test_f125_a_renamed_node_keeps_the_name_of_its_effect(driver: Driver) -> None:
    await driver.publish({"pay": paying("provider", "A")})
    run = await driver.start()
    first = await driver.acquire(run, "pay")
    await driver.publish({"charge": paying("provider", "B")})
    await driver.migrate(nodes={"pay": "charge"})
    await driver.settle()
    await driver.engine.advance(3600)
    await driver.settle()
    second = await driver.acquire(run, "charge")
    assert first.effect is not None
    assert second.effect is not None
    assert (second.effect.key, second.effect.calls) == (first.effect.key, 2)


async def test_f125_a_new_node_cannot_come_to_the_name_of_anothers_effect(driver: Driver) -> None:
    await driver.publish({"pay": paying("provider", "A")})
    await driver.start()
    new = {"charge": paying("provider", "A"), "pay": paying("provider", "A", needs=["charge"])}
    await driver.publish(new)
    assert await driver.migrate(nodes={"pay": "charge"}) == [("EFFECT_KEY_TAKEN", "pay")]
