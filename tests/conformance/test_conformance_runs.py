"""Runs: start keys, versions, inputs, cancel, the age limit, what a closed run still takes."""

import pytest
from perdure_machine.events import Acquire, CancelRun, ExpireRun, FireTimer, Release
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Cancelled, Closed, Gone, Stale
from perdure_machine.states import EffectStatus, RunStatus, StepStatus
from perdure_runtime.errors import AlreadyExists, InvalidArgument, NotFound
from perdure_testkit.engines.driver import Driver, lease_of, new_lease, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"a": {"task": {"handler": "x"}}}
AGED = {"limits": {"age": "1h"}}
WEEK = 7 * 86_400


async def test_f116_p7_the_same_request_under_one_key_is_the_same_run(driver: Driver) -> None:
    await driver.publish(TASK)
    first = await driver.started(b'{"x": 1}', start_key="k", tags={"a": "1", "b": "2"})
    again = await driver.started(b'{"x": 1}', start_key="k", tags={"b": "2", "a": "1"})
    assert first.created
    assert (again.run_id, again.version, again.created) == (first.run_id, 1, False)
    assert len(await driver.engine.queued()) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"payload": b'{"x": 2}'},
        {"payload": b'{"x":1}'},
        {"tags": {"a": "1"}},
        {"priority": 3},
        {"version": 1},
    ],
)
async def test_f118_p7_another_request_under_a_taken_key_is_told_the_first_run(
    driver: Driver, other: dict[str, object]
) -> None:
    await driver.publish(TASK)
    first = await driver.start(b'{"x": 1}', start_key="k")
    with pytest.raises(AlreadyExists) as refused:
        await driver.started(**{"payload": b'{"x": 1}', "start_key": "k", **other})  # type: ignore[arg-type]
    assert refused.value.metadata["run_id"] == str(first)
    assert len(await driver.engine.queued()) == 1


async def test_p7_the_digest_is_of_the_request_as_asked_whatever_is_the_latest(
    driver: Driver,
) -> None:

    await driver.publish(TASK)
    first = await driver.started(start_key="k")
    assert await driver.publish({"b": {"task": {"handler": "y"}}}) == 2
    again = await driver.started(start_key="k")
    assert (again.run_id, again.version, again.created) == (first.run_id, 1, False)
    assert (await driver.started(start_key="other")).version == 2


async def test_p7_a_key_is_free_again_after_the_end_of_its_run_and_retention(
    driver: Driver,
) -> None:
    await driver.publish(TASK)
    first = await driver.start(start_key="k")
    await driver.engine.advance(2 * WEEK)
    assert await driver.start(start_key="k") == first
    await driver.drain()
    await driver.engine.advance(WEEK - 60)
    assert await driver.start(start_key="k") == first
    await driver.engine.advance(120)
    other = await driver.started(b'{"y": 1}', start_key="k")
    assert other.created
    assert other.run_id != first


async def test_a_key_belongs_to_an_org(driver: Driver, rival: Driver) -> None:
    await driver.publish(TASK)
    await rival.publish(TASK)
    assert await driver.start(start_key="k") != await rival.start(start_key="k")


async def test_a_refused_input_starts_nothing_and_takes_no_key(driver: Driver) -> None:
    schema = {"type": "object", "required": ["x"], "properties": {"d": {"default": 7}}}
    await driver.publish(TASK, input=schema)
    with pytest.raises(InvalidArgument):
        await driver.start(b"{}", start_key="k")
    run = await driver.start(b'{"x": 1}', start_key="k")
    assert (await driver.engine.run(run)).input == b'{"x": 1,"d":7}'


async def test_an_unknown_workflow_or_version_is_not_found(driver: Driver, rival: Driver) -> None:
    await driver.publish(TASK)
    with pytest.raises(NotFound):
        await driver.start(version=2)
    with pytest.raises(NotFound):
        await rival.start()


async def test_the_same_content_is_the_same_version(driver: Driver) -> None:
    assert [await driver.publish(TASK), await driver.publish(TASK)] == [1, 1]
    assert await driver.publish(TASK, limits={"steps": 9}) == 2


async def test_f062_a_start_leaves_no_run_without_its_first_steps(driver: Driver) -> None:
    await driver.publish({**TASK, "b": {"wait": "5s"}})
    run = await driver.start()
    assert await driver.statuses(run) == {"a": "queued", "b": "waiting"}
    assert list(await driver.engine.queued()) == [(run, 1)]
    assert [timer.run_id for timer in await driver.engine.timers()] == [run]


async def test_a_step_of_a_cancelled_run_is_not_handed_out(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    assert await driver.submit(run, CancelRun("no need")) == Cancelled(changed=True)
    assert await driver.submit(run, Acquire(1, new_lease(), "worker")) == Gone()
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=False)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled"}
    assert list(await driver.engine.queued()) == []


async def test_f031_f032_a_cancel_ends_steps_that_back_off_or_wait_with_their_timers(
    driver: Driver,
) -> None:
    await driver.publish({**TASK, "b": {"wait": "1h"}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"))
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled", "b": "cancelled"}
    assert list(await driver.engine.timers()) == []


async def test_f032_a_retry_that_fires_before_the_steps_of_a_closed_run_end_does_nothing(
    driver: Driver,
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"))
    await driver.submit(run, CancelRun())
    await driver.engine.advance(60)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled"}
    assert list(await driver.engine.queued()) == []


async def test_running_work_of_a_cancelled_run_may_finish_and_starts_nothing(
    driver: Driver,
) -> None:
    await driver.publish({**TASK, "b": {"task": {"handler": "y"}, "needs": ["a"]}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert await driver.engine.renew(driver.org, lease_of(granted)) is not None
    assert await driver.succeed(granted, b'"done"') == Applied()
    step = await driver.step(run, "a")
    assert (step.status, step.output) == (StepStatus.COMPLETED, b'"done"')
    assert list(await driver.statuses(run)) == ["a"]
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED


@pytest.mark.parametrize("how", ["fails", "is released", "is lost", "times out"])
async def test_running_work_of_a_cancelled_run_that_ends_otherwise_is_cancelled(
    driver: Driver, how: str
) -> None:
    node = {"http": {"url": "https://x.example", "method": "PUT", "effect": "provider"}}
    await driver.publish({"a": {**node, "timeout": "5s" if how == "times out" else "1h"}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, CancelRun())
    assert granted.step.lease_id is not None
    if how == "fails":
        assert await driver.fail(granted) == Applied()
    elif how == "is released":
        assert await driver.submit(run, Release(1, 1, granted.step.lease_id)) == Applied()
    else:
        await driver.engine.advance(11)
        await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled"}
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.OUTCOME_UNKNOWN
    assert list(await driver.engine.queued()) == []


async def test_a_run_that_ended_otherwise_refuses_the_cancel(driver: Driver) -> None:
    await driver.publish({"a": {"transform": 1}})
    run = await driver.start()
    assert await driver.submit(run, CancelRun()) == Closed(RunStatus.COMPLETED)
    assert (await driver.engine.run(run)).output == b'{"a":1}'


async def test_a_run_past_its_age_is_closed_with_its_steps(driver: Driver) -> None:
    await driver.publish(TASK, **AGED)
    run = await driver.start()
    await driver.engine.advance(90_000)
    assert await driver.submit(run, ExpireRun()) == Applied()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.TIMED_OUT
    assert state.error is not None
    assert state.error.code == "RUN_TOO_OLD"
    assert await driver.submit(run, ExpireRun()) == Stale()
    assert await driver.submit(run, CancelRun()) == Closed(RunStatus.TIMED_OUT)
    await driver.settle()
    assert await driver.statuses(run) == {"a": "cancelled"}
    assert (await driver.engine.run(run)).error == state.error


async def test_an_uncaught_failure_ends_the_other_steps_and_keeps_its_error(
    driver: Driver,
) -> None:
    await driver.publish({**TASK, "b": {"task": {"handler": "y"}}, "c": {"wait": "1h"}})
    run = await driver.start()
    other = await driver.acquire(run, "b")
    await driver.fail(await driver.acquire(run, "a"), ErrorClass.PERMANENT, "WRONG")
    await driver.settle()
    assert await driver.succeed(other) == Applied()
    assert await driver.statuses(run) == {"a": "failed", "b": "completed", "c": "cancelled"}
    state = await driver.engine.run(run)
    assert state.error is not None
    assert state.error.code == "WRONG"


async def test_events_of_a_cancelled_batch_are_answered_in_order(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    answers = await driver.engine.submit(
        driver.org, run, CancelRun(), CancelRun(), Acquire(1, new_lease(), "w"), ExpireRun()
    )
    assert answers == [Cancelled(changed=True), Cancelled(changed=False), Gone(), Stale()]
    await driver.settle()


async def test_a_late_report_and_the_end_of_the_other_steps_fit_in_one_batch(
    driver: Driver,
) -> None:
    await driver.publish({f"t{i}": {"task": {"handler": "x"}} for i in range(3)})
    run = await driver.start()
    late = await driver.acquire(run, "t0")
    await driver.submit(run, CancelRun())
    (timer,) = await driver.engine.timers()
    fire = FireTimer(timer.timer_id)
    answers = await driver.engine.submit(driver.org, run, success(late), fire, fire)
    assert answers == [Applied(), Applied(), Stale()]
    assert await driver.statuses(run) == {"t0": "completed", "t1": "cancelled", "t2": "cancelled"}
