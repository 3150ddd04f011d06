"""A call of which nobody knows is resolved before it is compensated (design section 8)."""

from __future__ import annotations

from uuid import UUID

import pytest
from perdure_machine.events import (
    Acquire,
    CancelRun,
    DecideEffect,
    GivenUp,
    NotPerformed,
    Performed,
)
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Gone, Stale
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus
from perdure_machine.view import NodeError
from perdure_testkit.engines.driver import Driver, new_lease

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALL = {"url": "https://x.example", "method": "POST", "effect": "none"}
UNDO = {"task": {"handler": "undo"}, "when": "attempted", "retry": {"max": 0}}
NODES = {"a": {"http": CALL, "compensate": UNDO}}


async def cancelled_in_review(driver: Driver) -> tuple[UUID, str]:
    """Return a run that compensates, and the key of its call of which nobody knows."""
    await driver.publish(NODES, compensate_on_cancel=True)
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.UNKNOWN)
    await driver.submit(run, CancelRun())
    await driver.settle()
    await ask_for_undo(driver, run)
    return run, f"{run}/a/request"


async def ask_for_undo(driver: Driver, run: UUID) -> None:
    """See that no worker is given the compensation."""
    step = await driver.step(run, "a.compensate")
    assert await driver.submit(run, Acquire(step.step, new_lease(), "w")) == Gone()


async def test_r8_the_compensation_of_an_unknown_call_waits_for_a_person(driver: Driver) -> None:
    run, key = await cancelled_in_review(driver)
    undo = await driver.step(run, "a.compensate")
    assert undo.status is StepStatus.PARKED
    await driver.submit(run, DecideEffect(key, Performed(b"1"), "ann"))
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.compensations, state.uncompensated) == (RunStatus.CANCELLED, 1, 0)


async def test_r8_what_was_not_performed_is_not_taken_back(driver: Driver) -> None:
    run, key = await cancelled_in_review(driver)
    await driver.submit(run, DecideEffect(key, NotPerformed(), "ann"))
    await driver.settle()
    assert (await driver.step(run, "a.compensate")).status is StepStatus.CANCELLED
    state = await driver.engine.run(run)
    assert (state.status, state.uncompensated) == (RunStatus.CANCELLED, 0)


async def test_r8_what_nobody_finds_out_is_counted_as_uncompensated(driver: Driver) -> None:
    run, key = await cancelled_in_review(driver)
    error = NodeError(ErrorClass.PERMANENT, "LOST", "the other side is gone")
    await driver.submit(run, DecideEffect(key, GivenUp(error), "ann"))
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.uncompensated) == (RunStatus.CANCELLED, 1)
    assert "compensation_failed" in await driver.kinds(run)


async def test_r8_a_compensation_waits_until_a_call_is_over_that_may_be_open(
    driver: Driver,
) -> None:
    await driver.publish(NODES, compensate_on_cancel=True)
    run = await driver.start()
    late = await driver.call(run, "a")
    await driver.submit(run, CancelRun())
    await driver.engine.advance(11)
    await driver.settle()
    assert "a.compensate" not in await driver.statuses(run)
    assert await driver.engine.no_way_forward() == []
    assert await driver.succeed(late, b"1") == Stale()
    await driver.settle()
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED


async def test_r8_a_compensation_waits_for_each_unknown_call_of_a_handler(driver: Driver) -> None:
    node = {"task": {"handler": "x"}, "compensate": UNDO, "deadline": "5m"}
    await driver.publish({"a": node})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    for name in ("one", "two"):
        await driver.begin(granted, name=name)
    await driver.engine.advance(301)
    await driver.settle()
    prefix = granted.step.effect_prefix
    await ask_for_undo(driver, run)
    statuses = {one.key: one.status for one in await driver.engine.effects(run)}
    first = next(key for key, one in statuses.items() if one is EffectStatus.NEEDS_REVIEW)
    (second,) = {f"{prefix}/one", f"{prefix}/two"} - {first}
    await driver.submit(run, DecideEffect(first, Performed(b"1"), "ann"))
    assert (await driver.step(run, "a.compensate")).status is StepStatus.PARKED
    await driver.submit(run, DecideEffect(second, NotPerformed(), "ann"))
    await driver.succeed(await driver.acquire(run, "a.compensate"))
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
