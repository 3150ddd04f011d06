"""Exclusive keys: of the runs with one key one goes on at a time, by each policy."""

from uuid import UUID

import pytest
from perdure_machine.actions import Instant
from perdure_machine.events import CancelRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Cancelled
from perdure_machine.states import RunStatus, TimerKind
from perdure_runtime.errors import AlreadyExists, InvalidArgument, Reason
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK: dict[str, object] = {"a": {"task": {"handler": "x"}}}
QUEUE = {"key": "${input.account}"}
REFUSE = {**QUEUE, "policy": "refuse"}
REPLACE = {**QUEUE, "policy": "replace"}
ONE = b'{"account": "one"}'
OTHER = b'{"account": "other"}'


async def begun(driver: Driver, *runs: UUID) -> list[bool]:
    return [not (await driver.engine.run(run)).pending for run in runs]


async def finish(driver: Driver, run: UUID) -> None:
    """Do the run's one task well, and let what follows happen."""
    await driver.succeed(await driver.acquire(run, "a"))
    await driver.settle()


async def test_runs_of_one_key_go_on_one_after_the_other_in_the_order_of_their_starts(
    driver: Driver,
) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    runs = [await driver.start(ONE) for _ in range(3)]
    assert await begun(driver, *runs) == [True, False, False]
    assert not await driver.engine.no_way_forward()
    assert list(await driver.engine.steps(runs[1])) == []
    await finish(driver, runs[0])
    assert await begun(driver, *runs) == [True, True, False]
    await finish(driver, runs[1])
    await finish(driver, runs[2])
    states = [(await driver.engine.run(run)).status for run in runs]
    assert states == [RunStatus.COMPLETED] * 3
    assert list(await driver.engine.timers()) == []
    assert "run_queued" in await driver.kinds(runs[1])


async def test_runs_of_other_keys_do_not_wait(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    runs = [
        await driver.start(ONE),
        await driver.start(OTHER),
        await driver.start(b'{"account":7}'),
    ]
    assert await begun(driver, *runs) == [True, True, True]
    await driver.drain()


async def test_workflows_of_an_org_share_a_key_and_those_of_other_orgs_do_not(
    driver: Driver, rival: Driver
) -> None:
    second = Driver(driver.engine)
    for one in (driver, second, rival):
        await one.publish(TASK, exclusive={"key": "all"})
    first = await driver.start()
    waiting, foreign = await second.start(), await rival.start()
    assert await begun(driver, waiting, foreign) == [False, True]
    await finish(driver, first)
    assert await begun(driver, waiting) == [True]
    await finish(driver, waiting)
    await rival.succeed(await rival.acquire(foreign, "a"))
    await rival.settle()


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_a_key_is_handed_over_however_its_holder_ends(driver: Driver, how: str) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    first, second = await driver.start(ONE), await driver.start(ONE)
    if how == "cancelled":
        await driver.submit(first, CancelRun())
    else:
        await driver.fail(await driver.acquire(first, "a"), ErrorClass.PERMANENT)
    await driver.settle()
    assert await begun(driver, second) == [True]
    await finish(driver, second)


async def test_a_key_that_was_given_back_is_free(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=REFUSE)
    for _ in range(2):
        await finish(driver, await driver.start(ONE))


async def test_a_holder_that_ended_refuses_nobody_before_its_key_is_handed_over(
    driver: Driver,
) -> None:
    await driver.publish(TASK, exclusive=REFUSE)
    first = await driver.start(ONE)
    await driver.succeed(await driver.acquire(first, "a"))
    assert [one.kind for one in await driver.engine.timers()] == [TimerKind.HAND_OVER]
    second = await driver.start(ONE)
    await driver.settle()
    with pytest.raises(AlreadyExists):
        await driver.start(ONE)
    await finish(driver, second)


async def test_who_waits_is_before_who_starts_when_the_holder_has_just_ended(
    driver: Driver,
) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    first, second = await driver.start(ONE), await driver.start(ONE)
    await driver.succeed(await driver.acquire(first, "a"))
    third = await driver.start(ONE)
    await driver.settle()
    assert await begun(driver, second, third) == [True, False]
    await finish(driver, second)
    await finish(driver, third)


async def test_a_run_that_waits_is_cancelled_and_passed_over(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    runs = [await driver.start(ONE) for _ in range(3)]
    assert await driver.submit(runs[1], CancelRun()) == Cancelled(changed=True)
    await driver.settle()
    await finish(driver, runs[0])
    assert await begun(driver, *runs) == [True, False, True]
    await finish(driver, runs[2])
    assert list(await driver.engine.timers()) == []


async def test_a_run_cancelled_when_the_key_is_its_own_already_hands_it_on(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    runs = [await driver.start(ONE) for _ in range(3)]
    await driver.succeed(await driver.acquire(runs[0], "a"))
    await driver.fire_due()
    (begin,) = await driver.engine.timers()
    assert (begin.kind, begin.run_id) == (TimerKind.BEGIN, runs[1])
    await driver.submit(runs[1], CancelRun())
    await driver.settle()
    assert await begun(driver, *runs) == [True, False, True]
    await finish(driver, runs[2])


async def test_refuse_names_the_holder_and_stores_nothing(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=REFUSE)
    first = await driver.start(ONE)
    with pytest.raises(AlreadyExists) as refused:
        await driver.start(ONE, start_key="k")
    assert refused.value.reason is Reason.EXCLUSIVE_KEY_HELD
    assert refused.value.metadata["run_id"] == str(first)
    await finish(driver, first)
    again = await driver.started(ONE, start_key="k")
    assert again.created
    repeated = await driver.started(ONE, start_key="k")
    assert (repeated.created, repeated.run_id) == (False, again.run_id)
    await finish(driver, again.run_id)


async def test_replace_cancels_the_holder_and_those_that_wait(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=REPLACE)
    runs = [await driver.start(ONE) for _ in range(3)]
    assert await begun(driver, *runs) == [True, False, False]
    await driver.settle()
    states = [(await driver.engine.run(run)).status for run in runs]
    assert states == [RunStatus.CANCELLED, RunStatus.CANCELLED, RunStatus.RUNNING]
    assert await begun(driver, *runs) == [True, False, True]
    await finish(driver, runs[2])


async def test_those_replaced_are_told_once(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=REPLACE)
    runs = [await driver.start(ONE) for _ in range(5)]
    told = [one.run_id for one in await driver.engine.timers() if one.kind is TimerKind.CANCEL_RUN]
    assert sorted(told) == sorted(runs[:4])
    await driver.settle()
    await finish(driver, runs[4])


async def test_a_run_that_is_put_off_takes_its_place_when_it_is_to_begin(driver: Driver) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    later = await driver.start(ONE, begin=Instant(after=60))
    first = await driver.start(ONE)
    second = await driver.start(ONE)
    assert await begun(driver, later, first, second) == [False, True, False]
    await driver.engine.advance(5)
    held = await driver.acquire(first, "a")
    await driver.succeed(held)
    await driver.settle()
    await driver.engine.advance(56)
    await driver.settle()
    assert await begun(driver, later, second) == [False, True]
    assert not await driver.engine.no_way_forward()
    await finish(driver, second)
    assert await begun(driver, later) == [True]
    await finish(driver, later)


async def test_a_run_that_was_put_off_fails_where_it_would_have_been_refused(
    driver: Driver,
) -> None:
    await driver.publish(TASK, exclusive=REFUSE)
    later = await driver.start(ONE, begin=Instant(after=60))
    first = await driver.start(ONE)
    await driver.engine.advance(61)
    await driver.fire_due()
    state = await driver.engine.run(later)
    assert state.error is not None
    assert (state.status, state.error.code) == (RunStatus.FAILED, "EXCLUSIVE_KEY_HELD")
    assert str(first) in state.error.message
    await driver.settle()
    await finish(driver, first)


async def test_limits_of_a_run_that_waited_count_from_its_turn(driver: Driver) -> None:
    await driver.publish({"a": {"wait": "1h"}}, exclusive=QUEUE, deadline="2h")
    first, second = await driver.start(ONE), await driver.start(ONE)
    await driver.engine.advance(3601)
    await driver.settle()
    assert await begun(driver, first, second) == [True, True]
    await driver.engine.advance(3601)
    await driver.settle()
    assert (await driver.engine.run(second)).status is RunStatus.COMPLETED


async def test_a_run_that_ends_at_once_leaves_its_key(driver: Driver) -> None:
    await driver.publish({"a": {"transform": 1}}, exclusive=QUEUE)
    runs = [await driver.start(ONE) for _ in range(3)]
    await driver.settle()
    states = [(await driver.engine.run(run)).status for run in runs]
    assert states == [RunStatus.COMPLETED] * 3
    assert list(await driver.engine.timers()) == []


@pytest.mark.parametrize("payload", [b"{}", b'{"account": ""}', b'{"account": [1]}'])
async def test_a_start_without_a_key_is_refused_and_stores_nothing(
    driver: Driver, payload: bytes
) -> None:
    await driver.publish(TASK, exclusive=QUEUE)
    with pytest.raises(InvalidArgument, match="exclusive key"):
        await driver.start(payload)
    assert list(await driver.engine.queued()) == []


async def test_a_child_waits_for_its_key_like_any_run(driver: Driver) -> None:
    parent = Driver(driver.engine)
    await driver.publish(TASK, exclusive=QUEUE)
    first = await driver.start(ONE)
    await parent.publish({"c": {"run": {"workflow": driver.workflow, "input": "${input}"}}})
    run = await parent.start(ONE)
    await parent.settle()
    (child,) = await parent.engine.children(run)
    assert child.run_id is not None
    assert await begun(driver, child.run_id) == [False]
    await finish(driver, first)
    await finish(driver, child.run_id)
    assert (await parent.engine.run(run)).status is RunStatus.COMPLETED
