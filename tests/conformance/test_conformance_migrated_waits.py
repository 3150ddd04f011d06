"""Migrations of runs that wait: for a signal, a child, a deadline, their beginning (R11)."""

from typing import Any
from uuid import UUID

import pytest
from perdure_machine.actions import Instant
from perdure_machine.events import PauseRun, ResumeRun, RetryRun
from perdure_machine.migration import OnRemoved
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import EffectOutcome, RunStatus, TimerKind
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.port import Engine

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
LATE = {**TASK, "deadline": "1h"}


async def migrated(
    driver: Driver, old: dict[str, Any], new: dict[str, Any], *, start: Any = None, **asked: Any
) -> UUID:
    """Return a run that went from one document's nodes to another's."""
    await driver.publish(old)
    run = await driver.start(**(start or {}))
    await driver.settle()
    await driver.publish(new)
    assert await driver.migrate(**asked) == []
    await driver.settle()
    assert (await driver.engine.run(run)).workflow_version == 2
    return run


async def test_a_signal_ends_the_wait_of_a_renamed_node(driver: Driver) -> None:
    run = await migrated(
        driver,
        {"ask": {"signal": {"name": "go"}}},
        {"reply": {"signal": {"name": "other"}}, "b": {**TASK, "needs": ["reply"]}},
        nodes={"ask": "reply"},
    )
    await driver.send(run, data=b'"yes"')
    assert (await driver.step(run, "reply")).output == b'"yes"'
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_removed_wait_for_a_signal_takes_none_any_more(driver: Driver) -> None:
    run = await migrated(
        driver,
        {"ask": {"signal": {"name": "go"}}, "hold": TASK},
        {"hold": TASK},
        on_removed=OnRemoved.CANCEL,
    )
    await driver.send(run, data=b"1")
    assert await driver.statuses(run) == {"ask": "cancelled", "hold": "queued"}
    assert [one.data for one in await driver.engine.signals(run)] == [b"1"]
    await driver.drain()


async def test_an_early_signal_is_taken_by_a_wait_that_the_migration_begins(
    driver: Driver,
) -> None:
    await driver.publish({"hold": TASK})
    run = await driver.start()
    await driver.send(run, data=b'"early"')
    await driver.publish({"hold": TASK, "ask": {"signal": {"name": "go"}}})
    await driver.migrate()
    await driver.settle()
    assert (await driver.step(run, "ask")).output == b'"early"'
    await driver.drain()


async def test_a_child_ends_the_node_that_started_it_under_its_new_name(
    driver: Driver, engine: Engine
) -> None:
    child = Driver(engine)
    await child.publish({"work": TASK})
    call = {"run": {"workflow": child.workflow}}
    run = await migrated(
        driver,
        {"call": call},
        {"other": call, "b": {**TASK, "needs": ["other"]}},
        nodes={"call": "other"},
    )
    assert await driver.statuses(run) == {"other": "waiting"}
    assert len(await engine.children(run)) == 1
    await driver.drain()
    assert await driver.statuses(run) == {"other": "completed", "b": "completed"}
    assert len(await engine.children(run)) == 1


async def test_the_child_of_a_removed_node_ends_with_it(driver: Driver, engine: Engine) -> None:
    child = Driver(engine)
    await child.publish({"work": {"wait": "1d"}})
    run = await migrated(
        driver,
        {"call": {"run": {"workflow": child.workflow}}, "hold": TASK},
        {"hold": TASK},
        on_removed=OnRemoved.CANCEL,
    )
    (known,) = await engine.children(run)
    assert known.run_id is not None
    assert (await engine.run(known.run_id)).status is RunStatus.CANCELLED
    await driver.drain()
    assert (await engine.run(run)).status is RunStatus.COMPLETED


async def test_a_deadline_that_was_set_stands_under_the_new_name(driver: Driver) -> None:
    run = await migrated(driver, {"a": LATE}, {"first": TASK}, nodes={"a": "first"})
    (timer,) = await driver.engine.timers()
    assert timer.kind is TimerKind.DEADLINE
    await driver.engine.advance(3_601)
    await driver.settle()
    assert await driver.statuses(run) == {"first": "failed"}


async def test_the_deadline_of_a_removed_node_goes_with_it(driver: Driver) -> None:
    await migrated(driver, {"a": LATE, "b": TASK}, {"b": TASK}, on_removed=OnRemoved.CANCEL)
    assert await driver.engine.timers() == []
    await driver.drain()


async def test_a_run_that_is_yet_to_begin_begins_by_the_new_version(driver: Driver) -> None:
    run = await migrated(driver, {"a": TASK}, {"b": TASK}, start={"begin": Instant(after=60)})
    assert await driver.statuses(run) == {}
    await driver.engine.advance(61)
    await driver.settle()
    assert await driver.statuses(run) == {"b": "queued"}
    await driver.drain()


async def test_a_paused_run_is_migrated_and_goes_on_when_it_is_resumed(driver: Driver) -> None:
    await driver.publish({"a": TASK})
    run = await driver.start()
    await driver.submit(run, PauseRun())
    await driver.settle()
    await driver.publish({"first": TASK, "root": TASK, "b": {**TASK, "needs": ["first"]}})
    assert await driver.migrate(nodes={"a": "first"}) == []
    await driver.settle()
    assert await driver.statuses(run) == {"first": "parked"}
    await driver.submit(run, ResumeRun())
    await driver.settle()
    assert await driver.statuses(run) == {"first": "queued", "root": "queued"}
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_r8_a_retry_after_a_migration_repeats_the_call_under_its_first_key(
    driver: Driver,
) -> None:
    call = {"http": {"method": "POST", "url": "https://example.test", "effect": "provider"}}
    await driver.publish({"pay": call})
    run = await driver.start()
    await driver.publish({"charge": call, "b": {**TASK, "needs": ["charge"]}})
    await driver.migrate(nodes={"pay": "charge"})
    await driver.settle()
    first = await driver.acquire(run, "charge")
    refused = EffectOutcome.NOT_PERFORMED
    await driver.fail(first, ErrorClass.PERMANENT, effect=refused)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    await driver.submit(run, RetryRun())
    await driver.settle()
    second = await driver.acquire(run, "charge")
    assert first.effect is not None
    assert second.effect is not None
    assert (second.effect.key, second.effect.calls) == (first.effect.key, 2)
    await driver.succeed(second, b"{}", effect=EffectOutcome.PERFORMED)
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_retry_leaves_what_a_migration_has_removed_alone(driver: Driver) -> None:
    run = await migrated(driver, {"a": TASK, "b": TASK}, {"b": TASK}, on_removed=OnRemoved.CANCEL)
    await driver.fail(await driver.acquire(run, "b"), ErrorClass.PERMANENT)
    await driver.submit(run, RetryRun())
    await driver.drain()
    assert await driver.statuses(run) == {"a": "cancelled", "b": "completed"}
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_run_is_migrated_in_the_middle_of_its_retry_when_that_is_done(
    driver: Driver,
) -> None:
    await driver.publish({"a": TASK, "b": {**TASK, "needs": ["a"]}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    await driver.submit(run, RetryRun())
    await driver.publish({"first": TASK, "b": {**TASK, "needs": ["first"]}})
    found = await driver.migrate(nodes={"a": "first"}, dry_run=True)
    assert found == [("RUN_REOPENING", "a")]
    await driver.settle()
    assert await driver.migrate(nodes={"a": "first"}) == []
    await driver.drain()
    assert await driver.statuses(run) == {"first": "completed", "b": "completed"}


async def test_a_run_is_compensated_as_its_new_version_says(driver: Driver) -> None:
    undone = {**TASK, "compensate": {"task": {"handler": "undo"}}}
    last = {**TASK, "needs": ["a", "b"]}
    run = await migrated_after(
        driver,
        {"a": undone, "b": undone, "last": last},
        {"first": undone, "last": {**TASK, "needs": ["first"]}},
        done=("a", "b"),
        nodes={"a": "first"},
    )
    await driver.fail(await driver.acquire(run, "last"), ErrorClass.PERMANENT)
    await driver.settle()
    assert await driver.migrate(from_version=2, to_version=1, dry_run=True) == [
        ("RUN_COMPENSATING", "")
    ]
    await driver.drain()
    kinds = await driver.kinds(run)
    assert (kinds.count("compensation_began"), kinds.count("compensation_refused")) == (1, 1)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def migrated_after(
    driver: Driver, old: dict[str, Any], new: dict[str, Any], *, done: tuple[str, ...], **asked: Any
) -> UUID:
    """Return a run that went to new nodes when some of the old ones had completed."""
    await driver.publish(old)
    run = await driver.start()
    for node in done:
        await driver.succeed(await driver.acquire(run, node))
    await driver.publish(new)
    assert await driver.migrate(**asked) == []
    await driver.settle()
    return run
