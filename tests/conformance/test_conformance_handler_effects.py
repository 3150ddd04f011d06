"""Handlers with `ctx.effect` on both engines: done once, looked up, or decided by a person."""

import json
from collections import Counter
from typing import Any

import perdure
import pytest
from perdure_machine.events import DecideEffect, Performed
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.playing import Player

pytestmark = pytest.mark.asyncio(loop_scope="session")

HANDLER = "shop.settle"


class Shop:
    """The other sides of a handler: each breaks after its first work, and counts it."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.tries = 0

    def breaking(self, name: str) -> Any:
        def perform(key: str) -> str:
            self.done[name] += 1
            if self.done[name] == 1:
                raise ConnectionResetError(name)
            return f"{name} again"

        return perform

    def find(self, key: str) -> perdure.Performed:
        return perdure.Performed("found")

    def keyed(self, given: Any, ctx: perdure.HandlerContext) -> Any:
        self.tries += 1
        return ctx.effect("pay", self.breaking("pay"), keep=3600)

    async def looked_up(self, given: Any, ctx: perdure.HandlerContext) -> Any:
        self.tries += 1
        return await ctx.effect("contact", self.breaking("contact"), reconcile=self.find)

    def decided(self, given: Any, ctx: perdure.HandlerContext) -> Any:
        self.tries += 1
        return ctx.effect("fax", self.breaking("fax"))


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def playing(driver: Driver, function: Any) -> tuple[Player, Any]:
    """Publish a workflow of one handler, and start a run of it."""
    handlers = {HANDLER: perdure.Handler(HANDLER, function)}
    await driver.publish({"settle": {"task": {"handler": HANDLER}}})
    return Player(driver, handlers=handlers), await driver.start()


async def result(driver: Driver, run_id: Any) -> Any:
    return json.loads((await driver.step(run_id, "settle")).output or b"null")


async def test_protocol_p4_a_keyed_effect_is_repeated_under_its_key(
    driver: Driver, shop: Shop
) -> None:
    player, run_id = await playing(driver, shop.keyed)
    assert (await player.play(run_id)).status is RunStatus.COMPLETED
    assert await result(driver, run_id) == "pay again"
    (effect,) = await driver.engine.effects(run_id)
    assert (effect.key, effect.status, effect.calls) == (f"{run_id}/settle/pay", "settled", 2)


async def test_protocol_p4_an_effect_that_can_be_looked_up_is_not_repeated(
    driver: Driver, shop: Shop
) -> None:
    player, run_id = await playing(driver, shop.looked_up)
    assert (await player.play(run_id)).status is RunStatus.COMPLETED
    assert await result(driver, run_id) == "found"
    assert shop.done["contact"] == 1


async def test_protocol_p4_an_effect_of_which_nobody_knows_waits_for_a_person_and_goes_on(
    driver: Driver, shop: Shop
) -> None:
    player, run_id = await playing(driver, shop.decided)
    await player.work()
    step = await driver.step(run_id, "settle")
    assert step.parked is not None
    assert step.parked.cause == "review"
    key = f"{run_id}/settle/fax"
    await driver.submit(run_id, DecideEffect(key, Performed(b'"by phone"'), "ada"))
    assert (await player.play(run_id)).status is RunStatus.COMPLETED
    assert await result(driver, run_id) == "by phone"
    assert (shop.done["fax"], shop.tries) == (1, 2)
