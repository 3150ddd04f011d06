"""Erasure of a subject: its runs end, and every payload of them goes and does not come back."""

from __future__ import annotations

from uuid import UUID

import perdure_machine.decide.erasing as decide_erasing
import perdure_machine.memory.erasing as memory_erasing
import perdure_store.apply.erasing as store_erasing
import pytest
from perdure_machine.erasure import ERASED
from perdure_machine.events import Acquire, RetryRun, SendSignal
from perdure_machine.mailbox import SignalState
from perdure_machine.replies import Applied, Closed, Gone
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus
from perdure_runtime.errors import FailedPrecondition
from perdure_testkit.engines.driver import Driver, new_lease, new_signal_id

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADA = "ada@example.org"
TO_ADA = b'{"to":"ada@example.org"}'
TASK = {"task": {"handler": "h"}}
MAIL = {"url": "https://mail.example", "method": "POST", "effect": "provider"}


async def erase(driver: Driver, subject: str = ADA) -> UUID:
    erasure_id = await driver.engine.erase(driver.org, subject)
    await driver.settle()
    return erasure_id


async def assert_erased(driver: Driver, run_id: UUID) -> None:
    run = await driver.engine.run(run_id)
    assert run.erased
    assert run.input == ERASED
    assert run.output in (None, ERASED)
    assert run.tags == {"perdure": "erased"}
    for step in await driver.engine.steps(run_id):
        assert {step.input, step.output} <= {None, ERASED}
        assert step.error is None or step.error.code == "ERASED"
    assert not await driver.engine.signals(run_id)


async def test_an_unfinished_run_ends_and_its_payloads_go(driver: Driver) -> None:
    nodes = {"a": TASK, "b": {**TASK, "needs": ["a"]}, "c": {**TASK, "needs": ["b"]}}
    await driver.publish(nodes, subject="${input.to}")
    run = await driver.start(TO_ADA, tags={"customer": "ada"})
    await driver.succeed(await driver.acquire(run, "a"), b'{"seen":"ada"}')
    erasure_id = await erase(driver)
    await assert_erased(driver, run)
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED
    assert (await driver.step(run, "a")).output == ERASED
    told = await driver.engine.erasure(erasure_id)
    assert (told.pending, told.ended) == (0, 1)
    assert told.rows["steps"] == 2
    assert told.rows["runs"] == 1


async def test_a_run_that_ended_long_ago_is_erased_and_keeps_its_status(driver: Driver) -> None:
    await driver.publish({"a": TASK}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    await driver.succeed(await driver.acquire(run, "a"), b'"ada"')
    await erase(driver)
    await assert_erased(driver, run)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert (await driver.engine.run(run)).output == ERASED


async def test_only_the_runs_of_the_subject_in_this_org_are_erased(
    driver: Driver, rival: Driver
) -> None:
    for one in (driver, rival):
        await one.publish({"a": TASK}, subject="${input.to}")
    other, foreign = await driver.start(b'{"to":"grace"}'), await rival.start(TO_ADA)
    await erase(driver)
    assert (await driver.engine.run(other)).input == b'{"to":"grace"}'
    assert (await rival.engine.run(foreign)).input == TO_ADA


async def test_a_step_about_the_subject_has_its_whole_run_erased(driver: Driver) -> None:
    inner = {"send": {**TASK, "subject": "${item}"}}
    await driver.publish({"each": {"for_each": {"in": "${input.to}", "nodes": inner}}})
    run = await driver.start(b'{"to":["grace","ada@example.org"]}')
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "each[0].send"), b'"sent to grace"')
    erasure_id = await erase(driver)
    await assert_erased(driver, run)
    assert (await driver.engine.erasure(erasure_id)).rows["scopes"] == 2


async def test_runs_that_came_of_it_are_erased_too(driver: Driver) -> None:
    child = Driver(driver.engine, driver.org)
    await child.publish({"a": TASK})
    node = {"run": {"workflow": child.workflow, "input": {"to": "${input.to}"}}}
    await driver.publish({"sub": node}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    await driver.settle()
    (inside,) = await driver.engine.children(run)
    assert inside.run_id is not None
    erasure_id = await erase(driver)
    await assert_erased(driver, run)
    await assert_erased(driver, inside.run_id)
    assert (await driver.engine.erasure(erasure_id)).ended == 2


async def test_a_result_that_comes_late_is_taken_without_its_payload(driver: Driver) -> None:
    await driver.publish({"a": {"http": MAIL}}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    held = await driver.acquire(run, "a")
    await erase(driver)
    assert (await driver.step(run, "a")).input == ERASED
    assert await driver.succeed(held, b'"ada lives at ..."') == Applied()
    step = await driver.step(run, "a")
    assert (step.status, step.output) == (StepStatus.COMPLETED, ERASED)
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED


async def test_an_error_that_comes_late_is_taken_without_its_text(driver: Driver) -> None:
    await driver.publish({"a": TASK}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    held = await driver.acquire(run, "a")
    await erase(driver)
    await driver.fail(held, code="ADA_IS_NOT_AT_HOME")
    step = await driver.step(run, "a")
    assert step.error is None or step.error.code == "ERASED"


async def test_an_unsettled_call_of_an_erased_run_keeps_its_key_and_may_settle(
    driver: Driver,
) -> None:
    await driver.publish({"a": {"http": MAIL}}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    held = await driver.acquire(run, "a")
    await erase(driver)
    await driver.engine.advance(60)
    await driver.expire_due()
    (effect,) = await driver.engine.effects(run)
    assert (effect.key, effect.status) == (f"{run}/a/request", EffectStatus.OUTCOME_UNKNOWN)
    await driver.succeed(held, b'"late"', effect=EffectOutcome.PERFORMED)
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED
    await assert_erased(driver, run)


async def test_a_signal_to_an_erased_run_is_refused(driver: Driver) -> None:
    await driver.publish({"a": {"signal": {"name": "go"}}}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    await driver.send(run, "other", b'"about ada"')
    await erase(driver)
    late = SignalState(new_signal_id(), "go", b'"ada"', None)
    assert isinstance(await driver.submit(run, SendSignal(late)), Closed)
    assert [one.data for one in await driver.engine.signals(run)] in ([], [ERASED])


async def test_an_erased_run_is_not_retried(driver: Driver) -> None:
    await driver.publish({"a": {**TASK, "retry": {"max": 0}}}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    await driver.fail(await driver.acquire(run, "a"))
    assert len(await driver.engine.dead_letters(driver.org)) == 1
    await erase(driver)
    assert not await driver.engine.dead_letters(driver.org)
    with pytest.raises(FailedPrecondition, match="erased"):
        await driver.submit(run, RetryRun())


async def test_erasing_twice_finds_nothing_more(driver: Driver) -> None:
    await driver.publish({"a": TASK}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    first, second = await erase(driver), await erase(driver)
    assert (await driver.engine.erasure(first)).ended == 1
    assert not (await driver.engine.erasure(second)).rows
    await assert_erased(driver, run)


async def test_a_run_that_names_the_subject_after_the_erasure_is_erased_then(
    driver: Driver,
) -> None:
    """It was there when the erasure was asked for, so it may hold what was to go."""
    await driver.publish({"a": TASK, "b": {**TASK, "needs": ["a"], "subject": "${input.to}"}})
    run = await driver.start(TO_ADA)
    await driver.engine.advance(1)
    erasure_id = await erase(driver)
    assert (await driver.engine.run(run)).input == TO_ADA
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.settle()
    await assert_erased(driver, run)
    assert (await driver.engine.erasure(erasure_id)).ended == 1


async def test_a_run_that_starts_after_the_erasure_goes_on(driver: Driver) -> None:
    await driver.publish({"a": TASK}, subject="${input.to}")
    await erase(driver)
    run = await driver.start(TO_ADA)
    await driver.succeed(await driver.acquire(run, "a"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_long_run_is_erased_some_rows_at_a_time(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    for module in (decide_erasing, memory_erasing, store_erasing):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    child = Driver(driver.engine, driver.org)
    await child.publish({"t": {"transform": "${input}"}})
    inner = {"sub": {"run": {"workflow": child.workflow, "input": "${item}"}}}
    await driver.publish(
        {"each": {"for_each": {"in": "${input.l}", "nodes": inner}}}, subject="ada"
    )
    run = await driver.start(b'{"l":[1,2,3,4,5,6,7]}')
    await driver.settle()
    inside = [child.run_id for child in await driver.engine.children(run)]
    erasure_id = await erase(driver, "ada")
    told = await driver.engine.erasure(erasure_id)
    assert (told.pending, told.ended) == (0, 8)
    assert (told.rows["steps"], told.rows["scopes"]) == (15, 7)
    for one in (run, *inside):
        assert one is not None
        await assert_erased(driver, one)


async def test_nobody_is_handed_a_step_of_an_erased_run(driver: Driver) -> None:
    await driver.publish({"a": TASK}, subject="${input.to}")
    run = await driver.start(TO_ADA)
    held = await driver.acquire(run, "a")
    await erase(driver)
    assert await driver.submit(run, Acquire(held.step.step, new_lease(), "w")) == Gone()
