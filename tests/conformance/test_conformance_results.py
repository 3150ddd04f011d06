"""Results: retries, the waits before them, ends of nodes, and effects under one key."""

import pytest
from perdure_machine.events import Acquire, Failed, FireTimer, Release, Report
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Early, Granted, Stale
from perdure_machine.states import (
    AttemptOutcome,
    EffectOutcome,
    EffectStatus,
    RunStatus,
    StepStatus,
    TimerKind,
)
from perdure_machine.view import NodeError
from perdure_testkit.engines.driver import Driver, new_lease, success

pytestmark = pytest.mark.asyncio(loop_scope="session")


RETRIED = {"a": {"task": {"handler": "x"}, "retry": {"max": 2, "base": "40s", "factor": 2}}}
PAYMENT = {"a": {"http": {"url": "https://pay.example", "method": "POST", "effect": "provider"}}}


async def retry_wait(driver: Driver) -> float:
    """Return the seconds left of the only timer, which is a retry's."""
    (timer,) = await driver.engine.timers()
    assert timer.kind is TimerKind.RETRY
    return timer.remaining


async def test_a_failed_try_backs_off_and_is_tried_again_as_the_same_step(driver: Driver) -> None:
    await driver.publish(RETRIED)
    run = await driver.start()
    assert await driver.fail(await driver.acquire(run, "a")) == Applied()
    step = await driver.step(run, "a")
    assert (step.status, step.failures) == (StepStatus.BACKING_OFF, 1)
    assert await retry_wait(driver) == pytest.approx(40, abs=10)
    await driver.engine.advance(41)
    assert await driver.fire_due() == [Applied()]
    again = await driver.acquire(run, "a")
    assert (again.step.step, again.step.fence) == (step.step, 2)
    await driver.succeed(again)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_timer_that_is_early_stays_and_says_how_early(driver: Driver) -> None:
    await driver.publish(RETRIED)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"))
    (timer,) = await driver.engine.timers()
    reply = await driver.submit(run, FireTimer(timer.timer_id))
    assert isinstance(reply, Early)
    assert reply.remaining == pytest.approx(40, abs=10)
    await driver.engine.advance(41)
    fire = FireTimer(timer.timer_id)
    assert await driver.engine.submit(driver.org, run, fire, fire) == [Applied(), Stale()]
    assert await driver.submit(run, fire) == Stale()


async def test_a_retry_a_take_and_a_new_failure_fit_in_one_batch(driver: Driver) -> None:
    """The row of the old timer goes and that of the new one comes in one statement."""
    await driver.publish(RETRIED)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"))
    await driver.engine.advance(41)
    (timer,) = await driver.engine.timers()
    lease = new_lease()
    answers = await driver.engine.submit(
        driver.org,
        run,
        FireTimer(timer.timer_id),
        Acquire(1, lease, "worker"),
        Report(1, 2, lease, Failed(NodeError("retryable", "BROKEN", ""))),
    )
    assert [type(answer) for answer in answers] == [Applied, Granted, Applied]
    step = await driver.step(run, "a")
    assert (step.status, step.fence, step.failures) == (StepStatus.BACKING_OFF, 2, 2)
    assert await retry_wait(driver) == pytest.approx(40, abs=10)
    fences = [attempt.fence for attempt in await driver.engine.attempts(run)]
    assert fences == [1, 2]


async def test_taking_and_handing_back_in_one_batch_leaves_the_step_queued(driver: Driver) -> None:
    await driver.publish(RETRIED)
    run = await driver.start()
    lease = new_lease()
    await driver.engine.submit(driver.org, run, Acquire(1, lease, "w"), Release(1, 1, lease))
    assert (await driver.step(run, "a")).status is StepStatus.QUEUED
    assert list(await driver.engine.queued()) == [(run, 1)]


async def test_a_step_out_of_retries_fails_its_run_with_its_error(driver: Driver) -> None:
    await driver.publish(RETRIED)
    run = await driver.start()
    for _ in range(3):
        await driver.fail(await driver.acquire(run, "a"), code="NO_ROUTE")
        await driver.engine.advance(100)
        await driver.fire_due()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert (state.error.code, state.error.node) == ("NO_ROUTE", "a")
    assert list(await driver.engine.timers()) == []


async def test_f043_what_the_other_side_asks_to_wait_wins_up_to_a_day(driver: Driver) -> None:
    await driver.publish(RETRIED)
    for asked, waited in ((90.0, 90.0), (0.0, 0.0), (10e6, 86_400.0)):
        run = await driver.start()
        granted = await driver.acquire(run, "a")
        await driver.fail(granted, ErrorClass.RATE_LIMITED, retry_after=asked)
        (timer,) = [one for one in await driver.engine.timers() if one.run_id == run]
        assert timer.remaining == pytest.approx(waited, abs=10)


@pytest.mark.parametrize(
    "category", [ErrorClass.PERMANENT, ErrorClass.AUTHORISATION, ErrorClass.POISON]
)
async def test_an_error_that_no_rule_names_is_not_retried(
    driver: Driver, category: ErrorClass
) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), category)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_rule_with_the_smallest_wait_that_can_be_written_retries_at_once(
    driver: Driver,
) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}, "retry": {"base": "0.000001ms"}}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"))
    await driver.settle()
    assert (await driver.step(run, "a")).status is StepStatus.QUEUED


async def test_p4_an_effect_is_in_flight_with_the_lease_and_settled_with_the_report(
    driver: Driver,
) -> None:
    await driver.publish(PAYMENT)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    (effect,) = await driver.engine.effects(run)
    assert granted.effect == effect
    assert (effect.key, effect.kind) == (f"{run}/a/request", "provider")
    assert (effect.status, effect.fence, effect.calls) == (EffectStatus.IN_FLIGHT, 1, 1)
    await driver.succeed(granted, b"{}")
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.SETTLED, 1)


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (EffectOutcome.NOT_PERFORMED, EffectStatus.REFUSED),
        (EffectOutcome.UNKNOWN, EffectStatus.OUTCOME_UNKNOWN),
        (None, EffectStatus.OUTCOME_UNKNOWN),
        (EffectOutcome.PERFORMED, EffectStatus.SETTLED),
    ],
)
async def test_p4_a_failed_try_leaves_what_it_knows_and_the_next_uses_the_same_key(
    driver: Driver, told: EffectOutcome | None, status: EffectStatus
) -> None:
    await driver.publish(PAYMENT)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), effect=told)
    (effect,) = await driver.engine.effects(run)
    assert effect.status is status
    await driver.engine.advance(2)
    await driver.fire_due()
    again = await driver.acquire(run, "a")
    assert again.effect is not None
    assert (again.effect.key, again.effect.calls) == (effect.key, 2)
    settled = status is EffectStatus.SETTLED
    assert again.effect.status is (EffectStatus.SETTLED if settled else EffectStatus.IN_FLIGHT)
    await driver.succeed(again)


async def test_r8_the_effect_of_a_lost_lease_is_unknown_and_repeated_under_its_key(
    driver: Driver,
) -> None:
    await driver.publish(PAYMENT)
    run = await driver.start()
    first = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.OUTCOME_UNKNOWN
    second = await driver.acquire(run, "a")
    assert first.effect is not None
    assert second.effect is not None
    assert second.effect.key == first.effect.key
    await driver.succeed(second)


@pytest.mark.parametrize("told", [EffectOutcome.PERFORMED, None])
async def test_p4_a_report_refused_by_its_fence_still_settles_its_effect(
    driver: Driver, told: EffectOutcome | None
) -> None:
    await driver.publish(PAYMENT)
    run = await driver.start()
    late = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    assert await driver.succeed(late, effect=told) == Stale()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED
    again = await driver.acquire(run, "a")
    await driver.fail(again, effect=EffectOutcome.NOT_PERFORMED)
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED


async def test_p4_what_an_older_holder_does_not_know_says_nothing_of_the_newest_call(
    driver: Driver,
) -> None:
    await driver.publish(PAYMENT)
    run = await driver.start()
    late = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.acquire(run, "a")
    for told in (EffectOutcome.UNKNOWN, EffectOutcome.NOT_PERFORMED):
        assert await driver.fail(late, effect=told) == Stale()
        (effect,) = await driver.engine.effects(run)
        assert effect.status is EffectStatus.IN_FLIGHT


async def test_r5_a_repeated_report_of_a_refused_effect_changes_nothing(driver: Driver) -> None:
    await driver.publish(PAYMENT)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    for told in (EffectOutcome.NOT_PERFORMED, EffectOutcome.NOT_PERFORMED, None):
        assert await driver.fail(granted, effect=told) == Applied()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.REFUSED
    assert (await driver.engine.run(run)).revision == 3


async def test_a_report_that_settles_an_effect_late_leaves_the_closed_run_as_it_ended(
    driver: Driver,
) -> None:
    await driver.publish(PAYMENT)
    run = await driver.start()
    late = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.fail(
        await driver.acquire(run, "a"), ErrorClass.PERMANENT, effect=EffectOutcome.NOT_PERFORMED
    )
    ended = await driver.engine.run(run)
    assert await driver.succeed(late) == Stale()
    after = await driver.engine.run(run)
    assert after.revision > ended.revision
    assert (after.status, after.error) == (RunStatus.FAILED, ended.error)


async def test_a_call_that_may_be_repeated_at_will_records_no_effect(driver: Driver) -> None:
    await driver.publish({"a": {"http": {"url": "https://read.example"}}})
    run = await driver.start()
    assert (await driver.acquire(run, "a")).effect is None
    assert list(await driver.engine.effects(run)) == []


async def test_the_result_that_an_expression_cannot_shape_is_a_failure_of_the_node(
    driver: Driver,
) -> None:
    node = {"task": {"handler": "x"}, "result": "${nodes.a.output.missing}"}
    await driver.publish({"a": node})
    run = await driver.start()
    assert await driver.succeed(await driver.acquire(run, "a"), b"{}") == Applied()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert (state.error.category, state.error.node) == ("permanent", "a")
    (attempt,) = await driver.engine.attempts(run)
    assert attempt.outcome is AttemptOutcome.FAILED


async def test_the_error_of_an_earlier_try_does_not_stay_on_a_completed_step(
    driver: Driver,
) -> None:
    await driver.publish(RETRIED)
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"), retry_after=0)
    await driver.settle()
    await driver.submit(run, success(await driver.acquire(run, "a"), b"1"))
    step = await driver.step(run, "a")
    assert (step.status, step.error, step.output) == (StepStatus.COMPLETED, None, b"1")
