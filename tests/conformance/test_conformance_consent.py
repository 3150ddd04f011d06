"""Whom work is about, and lists that forbid it: looked up when it is about to be handed out."""

from __future__ import annotations

from uuid import UUID

import pytest
from perdure_machine.events import Acquire
from perdure_machine.replies import Applied, Gone, Granted, Suspended
from perdure_machine.states import EffectStatus, RunStatus, StepStatus
from perdure_runtime.errors import InvalidArgument
from perdure_testkit.engines.driver import Driver, new_lease, offer_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIL = {"url": "https://mail.example", "method": "POST", "effect": "provider"}
SEND = {"send": {"http": MAIL, "subject": "${input.to}", "purpose": "marketing"}}
TO_ADA = b'{"to":"Ada@Example.org "}'


async def refused(driver: Driver, run: UUID, node: str) -> bool:
    """Ask for a step; tell whether it was not handed out."""
    step = await driver.step(run, node)
    reply = await driver.submit(run, Acquire(step.step, new_lease(), "worker"))
    return isinstance(reply, Gone)


@pytest.mark.parametrize("purpose", ["marketing", "*"])
async def test_a_suppressed_step_fails_and_is_never_called(driver: Driver, purpose: str) -> None:
    await driver.publish(SEND)
    run = await driver.start(TO_ADA)
    await driver.engine.suppress(driver.org, "ada@example.org", purpose)
    assert await refused(driver, run, "send")
    step = await driver.step(run, "send")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert (step.error.code, step.error.category) == ("SUPPRESSED", "permanent")
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.REFUSED, 0)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_list_for_another_purpose_or_subject_or_org_forbids_nothing(
    driver: Driver, rival: Driver
) -> None:
    await driver.publish(SEND)
    run = await driver.start(TO_ADA)
    await driver.engine.suppress(driver.org, "ada@example.org", "research")
    await driver.engine.suppress(driver.org, "grace@example.org")
    await driver.engine.suppress(rival.org, "ada@example.org")
    await driver.succeed(await driver.acquire(run, "send"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_suppression_that_was_lifted_forbids_nothing(driver: Driver) -> None:
    await driver.publish(SEND)
    run = await driver.start(TO_ADA)
    await driver.engine.suppress(driver.org, "ada@example.org")
    await driver.engine.allow(driver.org, "ADA@example.org")
    await driver.acquire(run, "send")


async def test_a_suppressed_step_may_be_caught(driver: Driver) -> None:
    caught = [{"when": "error.code == 'SUPPRESSED'", "output": {"sent": False}}]
    await driver.publish({"send": {**SEND["send"], "on_failure": caught}})
    run = await driver.start(TO_ADA)
    await driver.engine.suppress(driver.org, "ada@example.org")
    assert await refused(driver, run, "send")
    assert (await driver.step(run, "send")).output == b'{"sent":false}'
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_each_try_is_looked_up_again(driver: Driver) -> None:
    await driver.publish(SEND)
    run = await driver.start(TO_ADA)
    await driver.fail(await driver.acquire(run, "send"))
    await driver.engine.suppress(driver.org, "ada@example.org")
    await driver.engine.advance(60)
    await driver.fire_due()
    assert await refused(driver, run, "send")
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.OUTCOME_UNKNOWN, 1)


async def test_a_step_with_a_subject_is_queued_and_not_chained(driver: Driver) -> None:
    about = {"task": {"handler": "h"}, "subject": "${input.to}", "needs": ["first"]}
    await driver.publish({"first": {"task": {"handler": "h"}}, "send": about})
    run = await driver.start(TO_ADA)
    reply = await driver.succeed(await driver.acquire(run, "first"), offer=offer_of("io:acme"))
    assert reply == Applied()
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED
    await driver.engine.suppress(driver.org, "ada@example.org")
    assert await refused(driver, run, "send")


async def test_a_purpose_alone_is_about_the_subject_of_the_run(driver: Driver) -> None:
    nodes = {
        "a": {"task": {"handler": "h"}, "purpose": "marketing"},
        "b": {"task": {"handler": "h"}},
    }
    await driver.publish(nodes, subject="${input.to}")
    run = await driver.start(TO_ADA)
    await driver.engine.suppress(driver.org, "ada@example.org", "marketing")
    assert await refused(driver, run, "a")
    again = await driver.start(TO_ADA)
    assert isinstance(await driver.acquire(again, "b"), Granted)


async def test_in_a_loop_each_item_is_looked_up_for_itself(driver: Driver) -> None:
    inner = {"send": {"task": {"handler": "h"}, "subject": "${item}"}}
    await driver.publish({"each": {"for_each": {"in": "${input.to}", "nodes": inner}}})
    run = await driver.start(b'{"to":["ada@example.org",1815]}')
    await driver.fire_due()
    await driver.engine.suppress(driver.org, "1815")
    assert isinstance(await driver.acquire(run, "each[0].send"), Granted)
    assert await refused(driver, run, "each[1].send")


@pytest.mark.parametrize("to", [b"null", b'""', b'"  "', b"true", b"[]"])
async def test_a_subject_that_names_nobody_fails_its_node(driver: Driver, to: bytes) -> None:
    await driver.publish(SEND)
    run = await driver.start(b'{"to":%s}' % to)
    step = await driver.step(run, "send")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert step.error.code == "EXPRESSION_TYPE"


async def test_a_run_that_is_about_nobody_is_refused_at_the_door(driver: Driver) -> None:
    await driver.publish({"a": {"task": {"handler": "h"}}}, subject="${input.to}")
    with pytest.raises(InvalidArgument, match="subject"):
        await driver.start(b'{"to":null}')


async def test_protocol_p4_an_effect_is_looked_up_again_when_it_is_about_to_begin(
    driver: Driver,
) -> None:
    """It was forbidden while a worker had the step, before it called: nothing is called or paid."""
    about = {"task": {"handler": "h"}, "subject": "${input.to}", "cost": 1}
    await driver.publish({"send": about})
    await driver.engine.put_budget(driver.org, "all", 1_000_000)
    run = await driver.start(TO_ADA)
    granted = await driver.acquire(run, "send")
    await driver.engine.suppress(driver.org, "ada@example.org")
    assert isinstance(await driver.begin(granted), Suspended)
    step = await driver.step(run, "send")
    assert step.error is not None
    assert (step.status, step.error.code) == (StepStatus.FAILED, "SUPPRESSED")
    assert not await driver.engine.effects(run)
    assert await driver.engine.budget_left(driver.org, "all") == 1_000_000
