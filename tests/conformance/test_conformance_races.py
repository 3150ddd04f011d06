"""`cancel_rest`: a decided join cancels what only its open branches are for."""

from uuid import UUID

import pytest
from perdure_machine.events import Acquire
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Gone
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus, TimerKind
from perdure_testkit.engines.driver import Driver, failure, lease_of, new_lease, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

Nodes = dict[str, object]

TASK: Nodes = {"task": {"handler": "x"}}
RACE: Nodes = {
    "a": TASK, "b": TASK, "slow": TASK, "c": {**TASK, "needs": ["slow"]},
    "note": {**TASK, "needs": ["c"]},
    "won": {"needs": ["a", "b", "c"], "join": "any", "cancel_rest": True,
            "transform": "${join.first.id}"},
}  # fmt: skip


async def started(driver: Driver, nodes: Nodes = RACE, **members: object) -> UUID:
    await driver.publish(nodes, **members)
    return await driver.start()


async def test_the_first_that_ends_well_cancels_the_other_branches(driver: Driver) -> None:
    run = await started(driver)
    await driver.succeed(await driver.acquire(run, "a"))
    assert await driver.statuses(run) == {
        "a": "completed", "b": "cancelled", "slow": "cancelled", "c": "cancelled",
        "note": "cancelled", "won": "completed",
    }  # fmt: skip
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"won":"a"}')
    assert list(await driver.engine.queued()) == []


async def test_without_the_flag_the_others_go_on(driver: Driver) -> None:
    won = {"needs": ["a", "b"], "join": "any", "transform": 1}
    run = await started(driver, {"a": TASK, "b": TASK, "won": won})
    await driver.succeed(await driver.acquire(run, "a"))
    assert (await driver.statuses(run))["b"] == "queued"
    await driver.drain()


async def test_a_running_loser_is_told_and_may_end_well(driver: Driver) -> None:
    run = await started(driver)
    loser = await driver.acquire(run, "b")
    await driver.succeed(await driver.acquire(run, "a"))
    step = await driver.step(run, "b")
    assert (step.status, step.stopping) == (StepStatus.RUNNING, True)
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    assert await driver.engine.renew(driver.org, lease_of(loser)) is not None
    assert await driver.succeed(loser) == Applied()
    assert (await driver.statuses(run))["b"] == "completed"
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"won":"a"}')


@pytest.mark.parametrize("category", [ErrorClass.RETRYABLE, ErrorClass.PERMANENT])
async def test_a_running_loser_that_fails_is_cancelled_and_not_tried_again(
    driver: Driver, category: ErrorClass
) -> None:
    run = await started(driver)
    loser = await driver.acquire(run, "b")
    await driver.succeed(await driver.acquire(run, "a"))
    assert await driver.fail(loser, category) == Applied()
    assert (await driver.statuses(run))["b"] == "cancelled"
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("effect", "told", "expected"),
    [
        ("provider", EffectOutcome.PERFORMED, EffectStatus.SETTLED),
        ("none", EffectOutcome.NOT_PERFORMED, EffectStatus.REFUSED),
    ],
)
async def test_r8_a_losers_effect_in_flight_may_finish_and_settle(
    driver: Driver, effect: str, told: EffectOutcome, expected: EffectStatus
) -> None:
    call = {"http": {"url": "https://x.example", "method": "POST", "effect": effect}}
    run = await started(driver, {**RACE, "b": call})
    loser = await driver.call(run, "b")
    await driver.succeed(await driver.acquire(run, "a"))
    assert [one.status for one in await driver.engine.effects(run)] == [EffectStatus.IN_FLIGHT]
    await driver.fail(loser, effect=told)
    assert [one.status for one in await driver.engine.effects(run)] == [expected]


async def test_r8_a_losers_effect_is_unknown_only_if_its_lease_is_lost(driver: Driver) -> None:
    call = {"http": {"url": "https://x.example", "method": "POST", "effect": "none"}}
    run = await started(driver, {**RACE, "b": call})
    await driver.call(run, "b")
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.engine.advance(11)
    await driver.expire_due()
    assert [one.status for one in await driver.engine.effects(run)] == [EffectStatus.IN_FLIGHT]
    await driver.engine.advance(20)
    await driver.fire_due()
    unknown = [EffectStatus.OUTCOME_UNKNOWN]
    assert [one.status for one in await driver.engine.effects(run)] == unknown
    assert (await driver.statuses(run))["b"] == "cancelled"
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_losers_that_wait_or_back_off_end_with_their_timers(driver: Driver) -> None:
    nodes = {**RACE, "slow": {"wait": "1h", "deadline": "2h"}}
    run = await started(driver, nodes)
    await driver.fail(await driver.acquire(run, "b"), retry_after=3600)
    await driver.succeed(await driver.acquire(run, "a"))
    assert list(await driver.engine.timers()) == []
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_what_another_node_waits_for_goes_on(driver: Driver) -> None:
    nodes = {**RACE, "other": TASK, "both": {**TASK, "needs": ["note", "other"]}}
    run = await started(driver, nodes)
    await driver.succeed(await driver.acquire(run, "a"))
    statuses = await driver.statuses(run)
    assert (statuses["b"], statuses["slow"]) == ("cancelled", "queued")
    await driver.drain()
    assert (await driver.statuses(run))["both"] == "completed"


async def test_a_quorum_cancels_the_rest_when_it_is_reached_and_when_it_cannot_be(
    driver: Driver,
) -> None:
    won = {"needs": ["a", "b", "c"], "join": {"quorum": 2}, "cancel_rest": True, "transform": 1}
    nodes: Nodes = {"a": TASK, "b": TASK, "c": TASK, "won": won}
    run = await started(driver, nodes, on_error="finish_others")
    await driver.succeed(await driver.acquire(run, "a"))
    assert (await driver.statuses(run))["c"] == "queued"
    await driver.succeed(await driver.acquire(run, "b"))
    assert (await driver.statuses(run)) == {
        "a": "completed", "b": "completed", "c": "cancelled", "won": "completed",
    }  # fmt: skip
    run = await driver.start()
    for node in ("a", "b"):
        await driver.fail(await driver.acquire(run, node), ErrorClass.PERMANENT)
    assert (await driver.statuses(run)) == {
        "a": "failed", "b": "failed", "c": "cancelled", "won": "skipped",
    }  # fmt: skip
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_two_that_end_in_one_batch_leave_one_winner(driver: Driver) -> None:
    run = await started(driver)
    held = [await driver.acquire(run, node) for node in ("b", "a")]
    reports = [success(held[0]), failure(held[1], ErrorClass.PERMANENT)]
    assert await driver.engine.submit(driver.org, run, *reports) == [Applied(), Applied()]
    statuses = await driver.statuses(run)
    assert (statuses["b"], statuses["a"]) == ("completed", "cancelled")
    assert (await driver.engine.run(run)).output == b'{"won":"b"}'


async def test_a_loser_is_nobodys(driver: Driver) -> None:
    run = await started(driver)
    step = (await driver.step(run, "b")).step
    await driver.succeed(await driver.acquire(run, "a"))
    assert await driver.submit(run, Acquire(step, new_lease(), "worker")) == Gone()


async def test_a_whole_that_loses_is_stopped_inside(driver: Driver) -> None:
    nodes: Nodes = {**RACE, "b": {"group": {"nodes": {"i": TASK, "w": {"wait": "1h"}}}}}
    run = await started(driver, nodes)
    inside = await driver.acquire(run, "b[0].i")
    await driver.succeed(await driver.acquire(run, "a"))
    statuses = await driver.statuses(run)
    assert (statuses["b[0].i"], statuses["b[0].w"]) == ("running", "cancelled")
    await driver.fail(inside)
    statuses = await driver.statuses(run)
    assert (statuses["b"], statuses["b[0].i"]) == ("cancelled", "cancelled")
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_race_inside_of_a_whole_cancels_in_its_own_scope(driver: Driver) -> None:
    race = {
        "a": TASK,
        "b": TASK,
        "won": {
            "needs": ["a", "b"],
            "join": "any",
            "cancel_rest": True,
            "transform": "${join.first.id}",
        },
    }
    nodes: Nodes = {"each": {"for_each": {"in": "${input}", "concurrency": 2, "nodes": race}}}
    await driver.publish(nodes)
    run = await driver.start(b"[1, 2]")
    await driver.succeed(await driver.acquire(run, "each[0].a"))
    statuses = await driver.statuses(run)
    assert (statuses["each[0].b"], statuses["each[1].b"]) == ("cancelled", "queued")
    await driver.succeed(await driver.acquire(run, "each[1].b"))
    assert (await driver.statuses(run))["each[1].a"] == "cancelled"
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_r10_300_losers_end_by_internal_events(driver: Driver) -> None:
    nodes: Nodes = {f"t{i}": TASK for i in range(150)}
    nodes |= {f"u{i}": {**TASK, "needs": [f"t{i}"]} for i in range(150)}
    needs = ["a", *(f"u{i}" for i in range(150))]
    nodes |= {"a": TASK, "won": {"needs": needs, "join": "any", "cancel_rest": True, "wait": "9d"}}
    run = await started(driver, nodes)
    await driver.settle()
    held = await driver.acquire(run, "t149")
    await driver.succeed(await driver.acquire(run, "a"))
    for _ in range(20):
        statuses = list((await driver.statuses(run)).values())
        timers = [t for t in await driver.engine.timers() if t.kind is TimerKind.ADVANCE]
        assert not await driver.engine.no_way_forward()
        if not timers:
            break
        before = statuses.count("cancelled")
        assert await driver.fire_due() == [Applied()] * len(timers)
        after = list((await driver.statuses(run)).values()).count("cancelled")
        assert after - before <= 101
    statuses = list((await driver.statuses(run)).values())
    assert statuses.count("cancelled") == 299
    await driver.fail(held)
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_the_history_says_which_join_was_decided_without_a_node(driver: Driver) -> None:
    run = await started(driver)
    await driver.succeed(await driver.acquire(run, "a"))
    assert (await driver.kinds(run)).count("step_cancelled") == 4
