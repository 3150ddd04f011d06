"""Money: set aside before a try, settled after it; a run's limit fails it, a budget parks it."""

from __future__ import annotations

from uuid import UUID

import pytest
from perdure_machine.events import Acquire, Release
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Gone, Granted
from perdure_machine.states import EffectOutcome, RunStatus, StepStatus
from perdure_testkit.engines.driver import Driver, new_lease, offer_of, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

CENTS_10 = 100_000
ASK = {"task": {"handler": "h"}, "cost": 0.1}
CALL = {
    "http": {"url": "https://llm.example", "method": "POST", "effect": "provider"},
    "cost": "0.10",
}


async def is_refused(driver: Driver, run: UUID, node: str) -> bool:
    """Ask for a step; tell whether it was not handed out."""
    step = await driver.step(run, node)
    reply = await driver.submit(run, Acquire(step.step, new_lease(), "worker"))
    return isinstance(reply, Gone)


async def left(driver: Driver, name: str = "all") -> int:
    return await driver.engine.budget_left(driver.org, name)


async def test_a_try_is_paid_from_what_was_set_aside_for_it(driver: Driver) -> None:
    await driver.publish({"a": ASK})
    await driver.engine.put_budget(driver.org, "all", 10 * CENTS_10)
    run = await driver.start()
    assert await left(driver) == 10 * CENTS_10
    granted = await driver.acquire(run, "a")
    assert await left(driver) == 9 * CENTS_10
    await driver.succeed(granted)
    assert await left(driver) == 9 * CENTS_10


@pytest.mark.parametrize("paid", [0, 30_000, 5 * CENTS_10])
async def test_what_a_try_came_to_counts_and_not_its_estimate(driver: Driver, paid: int) -> None:
    await driver.publish({"a": ASK})
    await driver.engine.put_budget(driver.org, "all", 10 * CENTS_10)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, replace(success(granted), cost=paid))
    assert await left(driver) == 10 * CENTS_10 - paid


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        (b'{"usage": 30}', 30_000),
        (b'{"usage": 900, "n": 18446744073709551616}', 9 * CENTS_10),
        (b'{"usage": -1}', CENTS_10),
        (b'{"other": 1}', CENTS_10),
        (b"[1]", CENTS_10),
    ],
)
async def test_what_a_call_came_to_by_its_answer_counts_if_it_is_an_amount(
    driver: Driver, answer: bytes, paid: int
) -> None:
    spent = "${double(nodes.a.output.usage) * 0.001}"
    await driver.publish({"a": {**CALL, "spent": spent, "result": "${nodes.a.status}"}})
    await driver.engine.put_budget(driver.org, "all", 10 * CENTS_10)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), answer)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert await left(driver) == 10 * CENTS_10 - paid


async def test_a_call_that_failed_is_paid_as_estimated_whatever_its_definition_reads(
    driver: Driver,
) -> None:
    retry = {"max": 0}
    await driver.publish({"a": {**CALL, "spent": "${nodes.a.output.usage}", "retry": retry}})
    await driver.engine.put_budget(driver.org, "all", 10 * CENTS_10)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), effect=EffectOutcome.UNKNOWN)
    assert await left(driver) == 9 * CENTS_10


async def test_an_exhausted_budget_parks_the_step_and_a_raised_one_brings_it_back(
    driver: Driver,
) -> None:
    await driver.publish({"a": ASK})
    await driver.engine.put_budget(driver.org, "all", CENTS_10 + 1)
    first, second = await driver.start(), await driver.start()
    held = await driver.acquire(first, "a")
    assert await is_refused(driver, second, "a")
    step = await driver.step(second, "a")
    assert step.status is StepStatus.PARKED
    assert step.parked is not None
    assert step.parked.cause == "budget:all"
    assert not await driver.engine.no_way_forward()
    await driver.succeed(held)
    await driver.engine.put_budget(driver.org, "all", 2 * CENTS_10)
    await driver.settle()
    assert (await driver.step(second, "a")).status is StepStatus.QUEUED
    await driver.succeed(await driver.acquire(second, "a"))
    assert (await driver.engine.run(second)).status is RunStatus.COMPLETED
    assert await left(driver) == 0


async def test_a_budget_that_is_raised_by_too_little_parks_the_step_again(driver: Driver) -> None:
    await driver.publish({"a": ASK})
    await driver.engine.put_budget(driver.org, "all", 1)
    run = await driver.start()
    assert await is_refused(driver, run, "a")
    await driver.engine.put_budget(driver.org, "all", 2)
    await driver.settle()
    assert await is_refused(driver, run, "a")
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    assert not await driver.engine.no_way_forward()


async def test_every_budget_that_holds_for_a_run_is_asked(driver: Driver) -> None:
    await driver.publish({"a": ASK})
    await driver.engine.put_budget(driver.org, "all", 10 * CENTS_10)
    await driver.engine.put_budget(driver.org, "mine", CENTS_10, workflow=driver.workflow)
    await driver.engine.put_budget(driver.org, "others", 0, workflow="another")
    first, second = await driver.start(), await driver.start()
    await driver.succeed(await driver.acquire(first, "a"))
    assert (await left(driver), await left(driver, "mine")) == (9 * CENTS_10, 0)
    assert await is_refused(driver, second, "a")
    step = await driver.step(second, "a")
    assert step.parked is not None
    assert step.parked.cause == "budget:mine"
    assert await left(driver) == 9 * CENTS_10


async def test_a_budget_of_another_org_holds_for_nobody_here(driver: Driver, rival: Driver) -> None:
    await driver.publish({"a": ASK})
    await driver.engine.put_budget(rival.org, "all", 0)
    assert isinstance(await driver.acquire(await driver.start(), "a"), Granted)


async def test_a_step_that_is_handed_back_or_did_nothing_costs_nothing(driver: Driver) -> None:
    await driver.publish({"a": CALL})
    await driver.engine.put_budget(driver.org, "all", CENTS_10)
    run = await driver.start()
    first = (await driver.acquire(run, "a")).step
    assert first.lease_id is not None
    await driver.submit(run, Release(first.step, first.fence, first.lease_id))
    assert await left(driver) == CENTS_10
    await driver.fail(await driver.acquire(run, "a"), effect=EffectOutcome.NOT_PERFORMED)
    assert await left(driver) == CENTS_10


async def test_a_lost_lease_is_paid_as_estimated_because_nobody_knows(driver: Driver) -> None:
    await driver.publish({"a": CALL})
    await driver.engine.put_budget(driver.org, "all", 2 * CENTS_10)
    run = await driver.start()
    await driver.acquire(run, "a")
    await driver.engine.advance(60)
    await driver.expire_due()
    assert await left(driver) == CENTS_10
    await driver.acquire(run, "a")
    assert await left(driver) == 0


async def test_a_run_that_would_pass_its_own_limit_fails(driver: Driver) -> None:
    nodes = {"a": ASK, "b": {**ASK, "needs": ["a"]}, "c": {**ASK, "needs": ["b"], "cost": 0.2}}
    caught = [{"output": "caught"}]
    nodes["c"]["on_failure"] = caught
    await driver.publish(nodes, limits={"cost": 0.39})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.succeed(await driver.acquire(run, "b"))
    assert await is_refused(driver, run, "c")
    step = await driver.step(run, "c")
    assert step.error is not None
    assert (step.status, step.error.code) == (StepStatus.FAILED, "BUDGET_EXCEEDED")
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_what_other_steps_have_set_aside_counts_for_the_limit_too(driver: Driver) -> None:
    await driver.publish({"a": ASK, "b": ASK}, limits={"cost": "0.15"})
    run = await driver.start()
    await driver.acquire(run, "a")
    assert await is_refused(driver, run, "b")
    assert (await driver.step(run, "b")).status is StepStatus.FAILED


async def test_an_estimate_is_an_expression_and_may_be_nothing(driver: Driver) -> None:
    node = {"task": {"handler": "h"}, "cost": "${input.tokens * 0.001}"}
    await driver.publish({"a": node})
    await driver.engine.put_budget(driver.org, "all", CENTS_10)
    await driver.acquire(await driver.start(b'{"tokens":33.0}'), "a")
    assert await left(driver) == CENTS_10 - 33_000
    await driver.acquire(await driver.start(b'{"tokens":0.0}'), "a")


@pytest.mark.parametrize("cost", [b"-1", b'"much"', b"true", b"null", b"1e30"])
async def test_an_estimate_that_is_no_amount_fails_its_node(driver: Driver, cost: bytes) -> None:
    await driver.publish({"a": {"task": {"handler": "h"}, "cost": "${input.c}"}})
    run = await driver.start(b'{"c":%s}' % cost)
    step = await driver.step(run, "a")
    assert step.error is not None
    assert step.error.code == "EXPRESSION_TYPE"


async def test_a_step_with_a_cost_is_queued_and_not_chained(driver: Driver) -> None:
    await driver.publish({"first": {"task": {"handler": "h"}}, "a": {**ASK, "needs": ["first"]}})
    await driver.engine.put_budget(driver.org, "all", 0)
    run = await driver.start()
    granted = await driver.acquire(run, "first")
    assert await driver.succeed(granted, offer=offer_of("io:acme")) == Applied()
    assert (await driver.step(run, "a")).status is StepStatus.QUEUED


async def test_each_try_sets_aside_anew(driver: Driver) -> None:
    await driver.publish({"a": {**ASK, "retry": {"max": 3}}})
    await driver.engine.put_budget(driver.org, "all", 2 * CENTS_10)
    run = await driver.start()
    for _ in range(2):
        await driver.fail(await driver.acquire(run, "a"))
        await driver.engine.advance(60)
        await driver.settle()
    assert await is_refused(driver, run, "a")
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
