"""Migrations of runs from one version to another, on both engines (R11)."""

from typing import Any
from uuid import UUID

import pytest
from perdure_machine.events import FireTimer
from perdure_machine.migration import MigrationOutcome, OnPassed, OnRemoved
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import EffectOutcome, RunStatus
from perdure_runtime.errors import InvalidArgument, NotFound, Reason
from perdure_testkit.engines.driver import Driver, lease_of, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
CALL = {"http": {"method": "POST", "url": "https://example.test", "effect": "provider"}}


def after(*needs: str, **members: Any) -> dict[str, Any]:
    return {**TASK, "needs": list(needs), **members}


async def versions(
    driver: Driver, old: dict[str, Any], new: dict[str, Any], **members: Any
) -> UUID:
    """Publish both, and return a run on the first."""
    await driver.publish(old)
    run = await driver.start(b'{"n": 1}')
    assert await driver.publish(new, **members) == 2
    return run


async def outcome(driver: Driver, run: UUID) -> MigrationOutcome:
    """Return what the last migration did about a run."""
    return (await driver.engine.migrations(run))[-1].outcome


async def finish(driver: Driver, run: UUID, version: int = 2) -> dict[str, str]:
    """Do the rest well; return the statuses of a run that completed."""
    await driver.drain()
    state = await driver.engine.run(run)
    assert (state.status, state.workflow_version) == (RunStatus.COMPLETED, version)
    return await driver.statuses(run)


async def test_r11_a_run_stays_on_its_version_until_it_is_migrated(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK}, {"a": TASK, "b": after("a")})
    assert await finish(driver, run, version=1) == {"a": "completed"}


async def test_r11_a_migrated_run_goes_on_by_the_new_version(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK}, {"a": TASK, "b": after("a")})
    assert await driver.migrate() == []
    await driver.settle()
    assert await outcome(driver, run) is MigrationOutcome.MIGRATED
    assert "run_migrated" in await driver.kinds(run)
    assert await finish(driver, run) == {"a": "completed", "b": "completed"}


async def test_a_dry_run_tells_and_changes_nothing(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK, "b": TASK}, {"a": TASK})
    before = await driver.engine.history(run)
    assert await driver.migrate(dry_run=True) == [("NODE_REMOVED", "b")]
    await driver.settle()
    assert await driver.engine.history(run) == before
    assert await driver.engine.migrations(run) == []


async def test_a_refused_run_stays_and_its_history_says_why(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK, "b": TASK}, {"a": TASK})
    await driver.migrate()
    await driver.settle()
    told = (await driver.engine.migrations(run))[-1]
    assert told.outcome is MigrationOutcome.REFUSED
    assert [one.code for one in told.refusals] == ["NODE_REMOVED"]
    assert (await driver.kinds(run))[-1] == "migration_refused"
    assert await finish(driver, run, version=1) == {"a": "completed", "b": "completed"}


async def test_only_the_runs_that_were_asked_for_move(driver: Driver) -> None:
    first = await versions(driver, {"a": TASK}, {"a": TASK, "b": after("a")})
    second = await driver.start(version=1)
    await driver.migrate(run_ids=(second,))
    await driver.settle()
    assert (await driver.engine.run(first)).workflow_version == 1
    assert (await driver.engine.run(second)).workflow_version == 2


async def test_a_run_that_ended_before_its_turn_is_left_as_it_is(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK}, {"a": TASK, "b": after("a")})
    await driver.migrate()
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.settle()
    assert await outcome(driver, run) is MigrationOutcome.ENDED
    assert await driver.statuses(run) == {"a": "completed"}


async def test_migrating_twice_is_once(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK}, {"a": TASK, "b": after("a")})
    await driver.migrate()
    await driver.migrate()
    for _ in range(3):
        await driver.settle()
    assert (await driver.kinds(run)).count("run_migrated") == 1
    assert [one.outcome for one in await driver.engine.migrations(run)] == [
        MigrationOutcome.MIGRATED, MigrationOutcome.MIGRATED,
    ]  # fmt: skip


async def test_a_run_goes_back_to_the_version_that_it_came_from(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK}, {"a": TASK, "b": after("a")})
    await driver.migrate()
    await driver.settle()
    await driver.migrate(from_version=2, to_version=1)
    await driver.settle()
    assert await finish(driver, run, version=1) == {"a": "completed"}


async def test_f125_a_renamed_node_keeps_its_step_and_the_key_of_its_effect(
    driver: Driver,
) -> None:
    run = await versions(driver, {"pay": CALL}, {"charge": CALL, "b": after("charge")})
    granted = await driver.acquire(run, "pay")
    assert granted.effect is not None
    await driver.migrate(nodes={"pay": "charge"})
    await driver.settle()
    await driver.succeed(granted, b'{"status": 200}', effect=EffectOutcome.PERFORMED)
    assert (await driver.step(run, "charge")).step == granted.step.step
    (effect,) = await driver.engine.effects(run)
    assert (effect.key, str(effect.status)) == (granted.effect.key, "settled")
    assert await finish(driver, run) == {"charge": "completed", "b": "completed"}


async def test_f125_a_call_that_is_repeated_after_the_migration_has_the_same_key(
    driver: Driver,
) -> None:
    run = await versions(driver, {"pay": CALL}, {"charge": CALL})
    first = await driver.acquire(run, "pay")
    await driver.migrate(nodes={"pay": "charge"})
    await driver.settle()
    await driver.engine.advance(3600)
    await driver.settle()
    second = await driver.acquire(run, "charge")
    assert first.effect is not None
    assert second.effect is not None
    assert (second.effect.key, second.effect.calls) == (first.effect.key, 2)
    await driver.succeed(second, b"{}", effect=EffectOutcome.PERFORMED)
    await finish(driver, run)


async def test_f125_a_new_node_never_takes_the_effect_key_of_another(driver: Driver) -> None:
    run = await versions(
        driver, {"pay": CALL}, {"charge": CALL, "pay": {**CALL, "needs": ["charge"]}}
    )
    assert await driver.migrate(nodes={"pay": "charge"}) == [("EFFECT_KEY_TAKEN", "pay")]
    await driver.settle()
    assert await outcome(driver, run) is MigrationOutcome.REFUSED
    await finish(driver, run, version=1)


async def test_two_nodes_that_have_begun_swap_their_ids(driver: Driver) -> None:
    run = await versions(
        driver,
        {"a": {"task": {"handler": "x", "input": "A"}}, "b": TASK},
        {"b": TASK, "a": TASK, "c": {"transform": "${nodes.b.output}", "needs": ["a", "b"]}},
        output="${nodes.c.output}",
    )
    granted = await driver.acquire(run, "a")
    await driver.succeed(granted, b'"of A"')
    await driver.migrate(nodes={"a": "b", "b": "a"})
    await driver.settle()
    assert (await driver.step(run, "b")).step == granted.step.step
    await finish(driver, run)
    assert (await driver.engine.run(run)).output == b'"of A"'


async def test_a_new_node_reads_the_output_of_a_renamed_one_that_has_ended(
    driver: Driver,
) -> None:
    run = await versions(
        driver,
        {"a": TASK, "hold": TASK},
        {
            "first": TASK,
            "hold": TASK,
            "c": {"transform": "${nodes.first.output}", "needs": ["first"]},
        },
    )
    await driver.succeed(await driver.acquire(run, "a"), b"18446744073709551616")
    await driver.migrate(nodes={"a": "first"})
    await driver.settle()
    assert (await driver.step(run, "c")).output == b"18446744073709551616"
    await finish(driver, run)


async def test_a_new_node_behind_all_that_ended_begins_with_the_migration(driver: Driver) -> None:
    run = await versions(
        driver,
        {"a": TASK, "hold": TASK},
        {"a": TASK, "hold": TASK, "root": TASK, "b": after("a"), "c": after("hold")},
    )
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.migrate()
    await driver.settle()
    assert await driver.statuses(run) == {
        "a": "completed", "hold": "queued", "root": "queued", "b": "queued",
    }  # fmt: skip
    await finish(driver, run)


async def test_a_run_of_which_only_removed_nodes_were_left_ends_with_the_migration(
    driver: Driver,
) -> None:
    run = await versions(driver, {"a": TASK, "b": TASK}, {"a": TASK})
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.migrate(on_removed=OnRemoved.CANCEL)
    await driver.settle()
    assert await finish(driver, run) == {"a": "completed", "b": "cancelled"}
    assert await driver.engine.queued() == []


async def test_a_removed_node_that_has_ended_counts_no_longer_for_the_end(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK, "b": TASK}, {"b": TASK, "c": after("b")})
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.migrate()
    await driver.settle()
    assert await finish(driver, run) == {"a": "completed", "b": "completed", "c": "completed"}


async def test_a_removed_wait_leaves_no_timer_behind(driver: Driver) -> None:
    run = await versions(driver, {"w": {"wait": "1h"}, "b": TASK}, {"b": TASK})
    await driver.migrate(on_removed=OnRemoved.CANCEL)
    await driver.settle()
    assert await driver.engine.timers() == []
    assert await finish(driver, run) == {"w": "cancelled", "b": "completed"}


@pytest.mark.parametrize("rule", list(OnRemoved))
async def test_a_removed_node_that_a_worker_runs_refuses_the_run_by_any_rule(
    driver: Driver, rule: OnRemoved
) -> None:
    run = await versions(driver, {"a": TASK, "b": TASK}, {"b": TASK})
    granted = await driver.acquire(run, "a")
    assert await driver.migrate(on_removed=rule) == [("STEP_RUNS", "a")]
    await driver.settle()
    await driver.succeed(granted)
    assert await driver.migrate(on_removed=rule) == []
    await driver.settle()
    await finish(driver, run)


async def test_a_late_report_of_a_removed_node_gets_its_old_answer(driver: Driver) -> None:
    """R5: a duplicate report changes nothing, also when its node is no more."""
    run = await versions(driver, {"a": TASK, "b": TASK}, {"b": TASK})
    granted = await driver.acquire(run, "a")
    first = await driver.succeed(granted)
    await driver.migrate()
    await driver.settle()
    assert await driver.succeed(granted) == first
    await finish(driver, run)


async def test_a_lease_held_over_the_migration_is_renewed_and_reports_to_the_renamed_node(
    driver: Driver,
) -> None:
    run = await versions(driver, {"a": TASK}, {"first": TASK, "b": after("first")})
    granted = await driver.acquire(run, "a")
    await driver.migrate(nodes={"a": "first"})
    await driver.settle()
    assert await driver.engine.renew(driver.org, lease_of(granted)) is not None
    await driver.succeed(granted, b'"held"')
    assert (await driver.step(run, "first")).output == b'"held"'
    await finish(driver, run)


async def test_a_report_in_the_same_batch_comes_before_the_migration(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK}, {"first": TASK, "b": after("first")})
    granted = await driver.acquire(run, "a")
    hold = await driver.start(version=1)
    await driver.migrate(nodes={"a": "first"}, run_ids=(run,))
    assert hold != run
    (timer,) = [one for one in await driver.engine.timers() if one.run_id == run]
    answers = await driver.engine.submit(
        driver.org, run, FireTimer(timer.timer_id), success(granted, b'"x"')
    )
    assert len(answers) == 2
    assert await outcome(driver, run) is MigrationOutcome.ENDED


async def test_a_retry_that_backs_off_goes_on_by_the_new_version(driver: Driver) -> None:
    retried = {**TASK, "retry": {"max": 3, "base": "10s"}}
    run = await versions(driver, {"a": retried}, {"first": retried, "b": after("first")})
    await driver.fail(await driver.acquire(run, "a"))
    await driver.migrate(nodes={"a": "first"})
    await driver.settle()
    assert (await driver.step(run, "first")).status == "backing_off"
    assert await finish(driver, run) == {"first": "completed", "b": "completed"}


async def test_a_wait_goes_on_as_long_as_it_was_set(driver: Driver) -> None:
    run = await versions(driver, {"w": {"wait": "1h"}}, {"pause": {"wait": "1m"}})
    await driver.migrate(nodes={"w": "pause"})
    await driver.settle()
    (timer,) = await driver.engine.timers()
    assert timer.remaining > 3000
    assert await finish(driver, run) == {"pause": "completed"}


async def test_an_unfinished_node_of_another_kind_refuses_the_run_and_an_ended_one_does_not(
    driver: Driver,
) -> None:
    run = await versions(
        driver,
        {"a": TASK, "b": TASK},
        {"a": {"wait": "1m"}, "b": {"transform": 1}},
    )
    assert await driver.migrate(dry_run=True) == [("KIND_CHANGED", "a"), ("KIND_CHANGED", "b")]
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.succeed(await driver.acquire(run, "b"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


LATE_OLD = {"a": TASK, "b": after("a"), "hold": TASK}
LATE_NEW = {"a": TASK, "check": after("a"), "b": after("a", "check"), "hold": TASK}


@pytest.mark.parametrize(
    ("rule", "becomes"), [(OnPassed.SKIP, "skipped"), (OnPassed.RUN, "completed")]
)
async def test_a_new_node_before_one_that_has_begun_refuses_or_does_as_its_rule_says(
    driver: Driver, rule: OnPassed, becomes: str
) -> None:
    run = await versions(driver, LATE_OLD, LATE_NEW)
    await driver.succeed(await driver.acquire(run, "a"))
    assert await driver.migrate() == [("NODE_PASSED", "check")]
    await driver.settle()
    assert await outcome(driver, run) is MigrationOutcome.REFUSED
    assert await driver.migrate(on_passed=rule) == []
    await driver.settle()
    assert (await finish(driver, run))["check"] == becomes


async def test_all_new_nodes_of_a_way_that_the_run_has_passed_are_skipped(driver: Driver) -> None:
    run = await versions(
        driver,
        {"a": TASK, "b": after("a")},
        {
            "a": TASK,
            "one": after("a"),
            "two": after("one"),
            "b": after("a", "two"),
            "kept": after("a"),
            "late": after("kept", "b"),
        },
    )
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.migrate(on_passed=OnPassed.SKIP)
    await driver.settle()
    found = await finish(driver, run)
    assert (found["one"], found["two"]) == ("skipped", "skipped")
    assert (found["kept"], found["late"]) == ("completed", "completed")


async def test_a_passed_node_that_something_else_needs_runs_rather_than_being_skipped(
    driver: Driver,
) -> None:
    run = await versions(driver, LATE_OLD, {**LATE_NEW, "later": after("check", "hold")})
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.migrate(on_passed=OnPassed.SKIP)
    await driver.settle()
    assert (await finish(driver, run))["check"] == "completed"


async def test_the_way_that_a_switch_took_stands_under_its_new_names(driver: Driver) -> None:
    old = {
        "which": {"switch": {"cases": [{"when": "input.n == 1", "then": ["a"]}], "else": ["b"]}},
        "a": after("hold"),
        "b": TASK,
        "hold": TASK,
    }
    new = {
        "which": {"switch": {"cases": [{"when": "false", "then": ["c"]}], "else": ["first", "b"]}},
        "first": after("hold"),
        "b": TASK,
        "c": TASK,
        "hold": TASK,
    }
    run = await versions(driver, old, new)
    await driver.migrate(nodes={"a": "first"})
    await driver.settle()
    assert await finish(driver, run) == {
        "which": "completed", "hold": "completed", "first": "completed", "b": "skipped",
        "c": "skipped",
    }  # fmt: skip


async def test_a_run_that_is_failing_is_not_migrated(driver: Driver) -> None:
    old = {"a": TASK, "b": TASK}
    run = await versions(driver, old, {**old, "c": TASK}, on_error="stop")
    await driver.publish({**old, "d": after("a", join="settled")}, on_error="finish_others")
    run = await driver.start()
    await driver.publish({**old, "e": TASK}, on_error="finish_others")
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT)
    found = await driver.migrate(from_version=3, to_version=4, dry_run=True, run_ids=(run,))
    assert found == [("RUN_FAILING", "a")]
    await driver.drain()


async def test_an_input_that_the_new_version_refuses_keeps_the_run_where_it_is(
    driver: Driver,
) -> None:
    await versions(
        driver, {"a": TASK}, {"a": TASK}, input={"type": "object", "required": ["email"]}
    )
    assert await driver.migrate(dry_run=True) == [("INPUT_INVALID", "")]
    await driver.drain()


async def test_the_run_gets_the_defaults_of_the_new_versions_input(driver: Driver) -> None:
    run = await versions(
        driver,
        {"a": TASK},
        {"a": TASK, "b": {"transform": "${input.more}", "needs": ["a"]}},
        input={"type": "object", "properties": {"more": {"default": 7}}},
        output="${nodes.b.output}",
    )
    await driver.migrate()
    await driver.settle()
    await finish(driver, run)
    assert (await driver.engine.run(run)).output == b"7"


@pytest.mark.parametrize(
    "nodes", [{"nowhere": "a"}, {"a": "nowhere"}, {"a": "b"}, {"a": "c", "b": "c"}]
)
async def test_a_map_that_the_versions_cannot_have_is_refused(
    driver: Driver, nodes: dict[str, str]
) -> None:
    await versions(driver, {"a": TASK, "b": TASK}, {"a": TASK, "b": TASK, "c": TASK})
    with pytest.raises(InvalidArgument) as caught:
        await driver.migrate(nodes=nodes)
    assert caught.value.reason is Reason.MIGRATION_INVALID
    await driver.drain()


async def test_a_version_that_there_is_not_is_refused(driver: Driver) -> None:
    await driver.publish({"a": TASK})
    with pytest.raises(NotFound):
        await driver.migrate()


async def test_another_orgs_runs_are_not_migrated(driver: Driver, rival: Driver) -> None:
    run = await versions(driver, {"a": TASK}, {"a": TASK, "b": after("a")})
    stranger = Driver(driver.engine, rival.org, driver.workflow)
    await stranger.publish({"a": TASK})
    await stranger.publish({"a": TASK, "b": after("a")})
    assert await stranger.migrate(run_ids=(run,)) == []
    await driver.settle()
    assert (await driver.engine.run(run)).workflow_version == 1
    await driver.drain()


async def test_a_second_migration_goes_by_the_names_of_the_first(driver: Driver) -> None:
    run = await versions(driver, {"a": TASK, "hold": TASK}, {"b": TASK, "hold": TASK})
    await driver.publish({"c": TASK, "hold": TASK, "end": after("c", "hold")})
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.migrate(nodes={"a": "b"})
    await driver.settle()
    await driver.migrate(from_version=2, to_version=3, nodes={"b": "c"})
    await driver.settle()
    found = await finish(driver, run, version=3)
    assert found == {
        "c": "completed",
        "hold": "completed",
        "end": "completed",
    }
