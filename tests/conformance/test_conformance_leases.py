"""Leases: one holder at a time, fences, losses, timeouts, chained hand-outs."""

from uuid import UUID

import pytest
from perdure_machine.events import Acquire, ExpireLease, Release, Report, Succeeded
from perdure_machine.replies import Applied, Gone, Granted, Stale
from perdure_machine.states import AttemptOutcome, EffectStatus, RunStatus, StepStatus
from perdure_testkit.engines.driver import (
    Driver,
    expiry,
    failure,
    lease_of,
    new_lease,
    offer_of,
    success,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"a": {"task": {"handler": "do.it"}}}
CHAIN = {
    "a": {"task": {"handler": "do.it"}},
    "b": {"task": {"handler": "do.more", "input": {"got": "${nodes.a.output}"}}, "needs": ["a"]},
}
QUEUE = "io:acme"


async def test_a_grant_names_the_try_and_takes_the_step_from_the_queue(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start(b'{"x": 1}')
    granted = await driver.acquire(run, "a")
    assert (granted.handler, granted.timeout, granted.effect) == ("do.it", None, None)
    assert (granted.step.fence, granted.step.input, granted.step.owner) == (1, b'{"x": 1}', "acme")
    assert granted.lease_for == pytest.approx(10)
    assert list(await driver.engine.queued()) == []


async def test_p3_a_repeated_acquire_gets_the_same_grant_with_the_time_that_is_left(
    driver: Driver,
) -> None:

    await driver.publish(TASK)
    run = await driver.start()
    first = await driver.acquire(run, "a")
    await driver.engine.advance(4)
    assert first.step.lease_id is not None
    again = await driver.submit(run, Acquire(1, first.step.lease_id, "worker"))
    assert isinstance(again, Granted)
    assert (again.step.fence, again.step.input) == (first.step.fence, first.step.input)
    assert 0 < again.lease_for <= 6
    await driver.engine.advance(7)
    assert await driver.submit(run, Acquire(1, first.step.lease_id, "worker")) == Gone()


async def test_f051_a_leased_step_is_gone_for_everybody_else(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    await driver.acquire(run, "a")
    assert await driver.submit(run, Acquire(1, new_lease(), "other")) == Gone()
    assert await driver.submit(run, Acquire(2, new_lease(), "other")) == Gone()


async def test_f052_of_two_acquires_in_one_batch_one_wins(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    answers = await driver.engine.submit(
        driver.org, run, Acquire(1, new_lease(), "one"), Acquire(1, new_lease(), "two")
    )
    assert [type(answer) for answer in answers] == [Granted, Gone]


async def test_f060_r6_after_a_loss_only_the_new_fence_counts(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    lost = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    assert await driver.expire_due() == [Applied()]
    step = await driver.step(run, "a")
    assert (step.status, step.losses, step.failures) == (StepStatus.QUEUED, 1, 0)
    taken = await driver.acquire(run, "a")
    assert taken.step.fence == 2
    assert await driver.succeed(lost, b'"late"') == Stale()
    assert await driver.succeed(taken, b'"right"') == Applied()
    assert (await driver.step(run, "a")).output == b'"right"'


async def test_r6_an_equal_fence_under_another_lease_id_changes_nothing(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    strange = Report(1, granted.step.fence, new_lease(), Succeeded(b"1"))
    revision = (await driver.engine.run(run)).revision
    assert await driver.submit(run, strange) == Stale()
    assert await driver.submit(run, Release(1, 1, new_lease())) == Stale()
    assert await driver.submit(run, ExpireLease(1, 1, new_lease(), timed_out=False)) == Stale()
    assert (await driver.engine.run(run)).revision == revision


async def test_p3_a_lease_id_once_lost_is_refused_for_good(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    first, second = new_lease(), new_lease()
    await driver.acquire(run, "a", first)
    await driver.engine.advance(11)
    await driver.expire_due()
    assert await driver.submit(run, Acquire(1, first, "worker")) == Gone()
    granted = await driver.acquire(run, "a", second)
    assert await driver.submit(run, Release(1, granted.step.fence, second)) == Applied()
    for lost in (first, second):
        assert await driver.submit(run, Acquire(1, lost, "worker")) == Gone()


async def test_p3_a_lease_id_lost_earlier_is_refused_in_the_batch_that_frees_the_step(
    driver: Driver,
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    first, second = new_lease(), new_lease()
    await driver.acquire(run, "a", first)
    await driver.engine.advance(11)
    await driver.expire_due()
    granted = await driver.acquire(run, "a", second)
    release = Release(1, granted.step.fence, second)
    answers = await driver.engine.submit(driver.org, run, release, Acquire(1, first, "worker"))
    assert answers == [Applied(), Gone()]


async def test_a_release_queues_the_step_again_and_counts_for_nothing(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    assert granted.step.lease_id is not None
    release = Release(1, granted.step.fence, granted.step.lease_id)
    assert await driver.submit(run, release) == Applied()
    assert await driver.submit(run, release) == Stale()
    step = await driver.step(run, "a")
    assert (step.status, step.losses, step.failures) == (StepStatus.QUEUED, 0, 0)
    assert list(await driver.engine.queued()) == [(run, 1)]


async def test_r6_a_renewed_lease_is_not_taken_away(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    (candidate,) = await driver.engine.expired()
    left = await driver.engine.renew(driver.org, lease_of(granted))
    assert left == pytest.approx(30, abs=5)
    revision = (await driver.engine.run(run)).revision
    assert await driver.submit(run, expiry(candidate)) == Stale()
    assert (await driver.engine.run(run)).revision == revision
    assert await driver.succeed(granted) == Applied()


async def test_a_renewal_never_goes_past_the_timeout_of_the_try(driver: Driver) -> None:
    await driver.publish({"a": {"task": {"handler": "do.it"}, "timeout": "20s"}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    assert granted.timeout == 20
    left = await driver.engine.renew(driver.org, lease_of(granted))
    assert left == pytest.approx(20, abs=5)
    await driver.engine.advance(21)
    assert await driver.engine.renew(driver.org, lease_of(granted)) is None
    assert await driver.expire_due() == [Applied()]
    step = await driver.step(run, "a")
    assert (step.status, step.failures, step.losses) == (StepStatus.BACKING_OFF, 1, 0)
    assert step.error is not None
    assert (step.error.category, step.error.code) == ("retryable", "TIMEOUT")
    assert [a.outcome for a in await driver.engine.attempts(run)] == [AttemptOutcome.TIMED_OUT]


async def test_a_timeout_shorter_than_a_hand_out_is_a_failure_and_no_loss(driver: Driver) -> None:
    await driver.publish({"a": {"task": {"handler": "do.it"}, "timeout": "2s"}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    assert granted.lease_for == pytest.approx(2)
    await driver.engine.advance(3)
    assert await driver.expire_due() == [Applied()]
    assert (await driver.step(run, "a")).failures == 1


async def test_losses_up_to_the_poison_limit_fail_the_step_as_poison(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    for _ in range(3):
        await driver.acquire(run, "a")
        await driver.engine.advance(11)
        assert await driver.expire_due() == [Applied()]
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert (state.error.category, state.error.code, state.error.node) == ("poison", "POISON", "a")
    outcomes = [attempt.outcome for attempt in await driver.engine.attempts(run)]
    assert outcomes == [AttemptOutcome.LOST] * 3


async def test_p3_a_report_chains_the_next_step_to_its_reporter(driver: Driver) -> None:
    await driver.publish(CHAIN)
    run = await driver.start()
    first = await driver.acquire(run, "a")
    reply = await driver.succeed(first, b'{"n": 1}', offer=offer_of("slow:acme", QUEUE))
    assert isinstance(reply, Applied)
    assert reply.next is not None
    assert (reply.next.step.node, reply.next.step.fence) == ("b", 1)
    assert reply.next.step.input == b'{"got":{"n": 1}}'
    assert list(await driver.engine.queued()) == []
    assert await driver.succeed(reply.next, b"2") == Applied()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize("queues", [("slow:acme",), ("io:shared",), ("io:rival",)])
async def test_a_step_of_a_queue_that_was_not_offered_is_queued(
    driver: Driver, queues: tuple[str]
) -> None:
    await driver.publish(CHAIN)
    run = await driver.start()
    reply = await driver.succeed(await driver.acquire(run, "a"), offer=offer_of(*queues))
    assert reply == Applied(None)
    assert list(await driver.engine.queued()) == [(run, 2)]


async def test_r5_p3_a_repeated_report_gets_the_same_chained_step(driver: Driver) -> None:
    await driver.publish(CHAIN)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    report = success(granted, b'{"n": 1}', offer=offer_of(QUEUE))
    first = await driver.submit(run, report)
    await driver.engine.advance(4)
    again = await driver.submit(run, report)
    assert isinstance(first, Applied)
    assert isinstance(again, Applied)
    assert first.next is not None
    assert again.next is not None
    assert again.next.step.input == first.next.step.input == b'{"got":{"n": 1}}'
    assert again.next.step.lease_id == first.next.step.lease_id
    assert 0 < again.next.lease_for <= 6
    await driver.engine.advance(7)
    assert await driver.submit(run, report) == Applied(None)


async def test_r5_p3_a_report_twice_in_one_batch_is_answered_twice_the_same(driver: Driver) -> None:
    await driver.publish(CHAIN)
    run = await driver.start()
    report = success(await driver.acquire(run, "a"), offer=offer_of(QUEUE))
    first, second = await driver.engine.submit(driver.org, run, report, report)
    assert isinstance(first, Applied)
    assert isinstance(second, Applied)
    assert first.next is not None
    assert second.next is not None
    assert second.next.step == first.next.step


async def test_p4_a_repeated_report_tells_the_effect_key_of_the_chained_call_again(
    driver: Driver,
) -> None:
    call = {"url": "https://mail.example", "method": "POST", "effect": "provider"}
    await driver.publish({"a": {"task": {"handler": "x"}}, "b": {"http": call, "needs": ["a"]}})
    run = await driver.start()
    report = success(await driver.acquire(run, "a"), offer=offer_of("io:shared"))
    for _ in range(2):
        reply = await driver.submit(run, report)
        assert isinstance(reply, Applied)
        assert reply.next is not None
        assert reply.next.effect is not None
        assert reply.next.effect.key == f"{run}/b/request"


async def test_a_report_that_fails_its_run_chains_no_step_of_it(driver: Driver) -> None:
    call = {"url": "https://x.example", "method": "POST", "effect": "provider"}
    nodes = {
        "a": {"task": {"handler": "x"}},
        "b": {"http": call, "needs": ["a"]},
        "c": {"transform": "${nodes.a.output.missing}", "needs": ["a"]},
    }
    await driver.publish(nodes)
    run = await driver.start()
    report = success(await driver.acquire(run, "a"), b"{}", offer=offer_of("io:shared"))
    for _ in range(2):
        assert await driver.submit(run, report) == Applied(None)
    assert await driver.statuses(run) == {"a": "completed", "b": "cancelled", "c": "failed"}
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.REFUSED
    await driver.settle()


async def test_a_report_of_a_failure_is_repeated_with_the_same_answer(driver: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    report = failure(await driver.acquire(run, "a"))
    assert await driver.submit(run, report) == Applied()
    before = await driver.engine.run(run)
    assert await driver.submit(run, report) == Applied()
    assert await driver.engine.run(run) == before
    assert len(await driver.engine.attempts(run)) == 1


async def test_p12_another_org_reaches_nothing_of_a_run(driver: Driver, rival: Driver) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    for event in (success(granted), Acquire(1, new_lease(), "thief"), failure(granted)):
        (answer,) = await driver.engine.submit(rival.org, run, event)
        assert getattr(answer, "reason", None) == "RUN_NOT_FOUND"
    assert await driver.engine.renew(rival.org, lease_of(granted)) is None
    (answer,) = await driver.engine.submit(driver.org, UUID(int=1), success(granted))
    assert getattr(answer, "reason", None) == "RUN_NOT_FOUND"
    assert await driver.succeed(granted) == Applied()
