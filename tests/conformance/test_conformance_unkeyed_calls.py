"""Calls whose provider honours no key: not repeated while somebody may have performed them (p4)."""

from __future__ import annotations

from uuid import uuid4

import pytest
from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import Acquire, CancelRun, Release
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import (
    Applied,
    EffectBegun,
    EffectRefused,
    EffectSettled,
    EffectUnknown,
    Gone,
    Stale,
    Stopping,
    Suspended,
)
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus, TimerKind
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_testkit.engines.driver import Driver, beginning, lease_of, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAX = {"a": {"http": {"url": "https://fax.example", "method": "POST"}, "retry": {"max": 3}}}
LEASE = 30.0
"""How long the lease of a call of 20 s lives, in seconds."""


async def test_p4_nothing_is_recorded_before_the_call_begins(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    assert granted.effect is None
    assert granted.begins is not None
    assert (granted.begins.kind, granted.begins.name) == (EffectKind.NONE, "request")
    assert await driver.engine.effects(run) == []
    begun = await driver.begin(granted)
    assert isinstance(begun, EffectBegun)
    assert begun.lease_for == LEASE
    (effect,) = await driver.engine.effects(run)
    assert (effect.key, effect.status) == (f"{run}/a/request", EffectStatus.IN_FLIGHT)


async def test_p4_a_lease_lost_before_the_call_sends_nobody_to_a_person(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.succeed(await driver.call(run, "a"))
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.SETTLED, 1)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p4_a_hand_out_that_is_handed_back_sends_nobody_to_a_person(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    lease_id = granted.step.lease_id
    assert lease_id is not None
    release = Release(granted.step.step, granted.step.fence, lease_id)
    assert await driver.submit(run, release) == Applied()
    await driver.succeed(await driver.call(run, "a"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_r8_a_replacement_waits_out_the_live_lease_of_another_call(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("lease")
    step = await driver.step(run, "a")
    assert step.status is StepStatus.WAITING
    assert await driver.engine.queued() == []
    (timer,) = [one for one in await driver.engine.timers() if one.step == step.step]
    assert timer.kind is TimerKind.EFFECT_WAIT
    assert 18 < timer.remaining < 20
    assert await driver.engine.no_way_forward() == []


async def test_r8_a_call_without_key_whose_worker_is_lost_in_it_is_left_to_a_person(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.begin(await driver.acquire(run, "a"))
    await driver.engine.advance(LEASE)
    await driver.fire_due()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.OUTCOME_UNKNOWN
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("review")
    step = await driver.step(run, "a")
    assert step.status is StepStatus.PARKED
    assert step.parked is not None
    assert step.parked.cause == "review"
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.NEEDS_REVIEW, 1)
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING


async def test_p4_the_answer_of_a_lost_holder_wakes_who_waits_for_it(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    late = await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.begin(await driver.acquire(run, "a"))
    assert await driver.succeed(late, b'"sent"') == Stale()
    assert (await driver.step(run, "a")).status is StepStatus.QUEUED
    again = await driver.acquire(run, "a")
    key = f"{run}/a/request"
    assert await driver.begin(again) == EffectSettled(key, b'"sent"')
    await driver.succeed(again, b'"sent"')
    assert (await driver.engine.run(run)).output == b'{"a":"sent"}'
    assert await driver.engine.timers() == []


@pytest.mark.parametrize("timeout", ["5s", "1h"])
async def test_p4_a_late_answer_settles_the_call_that_waits_for_a_person(
    driver: Driver, timeout: str
) -> None:
    """Whether its worker was lost or took too long; its run goes on with the answer."""
    await driver.publish({"a": {**FAX["a"], "timeout": timeout}})
    run = await driver.start()
    late = await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.engine.advance(LEASE)
    await driver.settle()
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("review")
    assert await driver.succeed(late, b'"sent"') == Stale()
    again = await driver.acquire(run, "a")
    assert isinstance(await driver.begin(again), EffectSettled)
    await driver.succeed(again, b'"sent"')
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_r8_a_failed_call_of_unknown_outcome_parks_its_step_for_a_person(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.UNKNOWN)
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.NEEDS_REVIEW


async def test_p4_a_failed_call_that_was_performed_is_not_repeated(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.PERFORMED)
    step = await driver.step(run, "a")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert step.error.code == "BROKEN"


async def test_p4_a_call_without_key_that_was_refused_is_tried_again(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.NOT_PERFORMED)
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF
    await driver.engine.advance(2)
    await driver.fire_due()
    await driver.succeed(await driver.call(run, "a"))
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.SETTLED, 2)


async def test_r8_a_retry_that_ran_out_does_not_end_a_step_whose_call_may_be_open(
    driver: Driver,
) -> None:
    await driver.publish({"a": {**FAX["a"], "timeout": "5s", "retry": {"max": 0}}})
    run = await driver.start()
    await driver.call(run, "a")
    await driver.engine.advance(6)
    await driver.expire_due()
    assert (await driver.step(run, "a")).status is StepStatus.WAITING
    await driver.engine.advance(LEASE)
    await driver.settle()
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("review")


async def test_r5_a_repeated_token_is_answered_with_what_is_left_of_its_lease(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    event = beginning(granted)
    assert isinstance(await driver.submit(run, event), EffectBegun)
    await driver.engine.advance(4)
    again = await driver.submit(run, event)
    assert isinstance(again, EffectBegun)
    assert 25 < again.lease_for < 26.01
    (effect,) = await driver.engine.effects(run)
    assert effect.calls == 1


async def test_r6_nobody_but_the_holder_begins_a_call(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    lost = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    assert await driver.begin(lost) == Gone()
    holder = await driver.acquire(run, "a")
    assert await driver.begin(lost) == Gone()
    assert await driver.begin(holder, fence=1) == Gone()
    assert await driver.engine.effects(run) == []


async def test_p4_no_call_begins_in_a_cancelled_run(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.submit(run, CancelRun())
    assert await driver.begin(granted) == Stopping()
    assert await driver.engine.effects(run) == []


async def test_p4_a_call_in_flight_at_a_cancel_may_settle(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.call(run, "a")
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert await driver.engine.renew(driver.org, lease_of(granted)) is not None
    await driver.succeed(granted, b"1")
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED


async def test_p4_a_call_in_flight_at_a_cancel_is_uncertain_only_if_its_lease_is_lost(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    await driver.call(run, "a")
    await driver.submit(run, CancelRun())
    await driver.settle()
    await driver.engine.advance(11)
    await driver.settle()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.IN_FLIGHT
    await driver.engine.advance(LEASE)
    await driver.settle()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.OUTCOME_UNKNOWN
    assert await driver.engine.timers() == []


async def test_p4_the_same_key_with_another_request_is_refused_by_name(driver: Driver) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    assert isinstance(await driver.begin(granted, digest=b"one"), EffectBegun)
    await driver.fail(granted, effect=EffectOutcome.NOT_PERFORMED)
    await driver.engine.advance(2)
    await driver.settle()
    again = await driver.acquire(run, "a")
    with pytest.raises(FailedPrecondition) as refused:
        await driver.begin(again, digest=b"other")
    assert refused.value.reason is Reason.EFFECT_MISMATCH
    assert isinstance(await driver.begin(again, digest=b"one"), EffectBegun)


async def test_p4_what_an_older_token_does_not_know_says_nothing_of_the_newest_call(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    first, second = beginning(granted), beginning(granted)
    key = f"{run}/a/request"
    await driver.submit(run, first)
    told = await driver.tell(run, first, key, EffectOutcome.NOT_PERFORMED)
    assert told == EffectRefused()
    assert await driver.tell(run, first, key, EffectOutcome.NOT_PERFORMED) == EffectRefused()
    await driver.submit(run, second)
    assert await driver.tell(run, first, key, EffectOutcome.NOT_PERFORMED) == Stale()
    assert await driver.tell(run, first, key, EffectOutcome.UNKNOWN) == Stale()
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.IN_FLIGHT
    told = await driver.tell(run, first, key, EffectOutcome.PERFORMED, result=b"1")
    assert told == EffectSettled(key, b"1")
    told = await driver.tell(run, second, key, EffectOutcome.UNKNOWN)
    assert told == EffectSettled(key, b"1")


async def test_a_handler_has_as_many_effects_as_it_names(driver: Driver) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    mail = beginning(granted, name="mail", kind=EffectKind.PROVIDER, keep=3600.0)
    fax = beginning(granted, name="fax", kind=EffectKind.NONE)
    assert isinstance(await driver.submit(run, mail), EffectBegun)
    assert isinstance(await driver.submit(run, fax), EffectBegun)
    prefix = granted.step.effect_prefix
    performed = EffectOutcome.PERFORMED
    await driver.tell(
        run, fax, f"{prefix}/fax", performed, result=b'{"page": 12345678901234567890}'
    )
    assert await driver.tell(run, mail, f"{prefix}/mail", EffectOutcome.UNKNOWN) == EffectUnknown()
    await driver.fail(granted)
    await driver.engine.advance(2)
    await driver.settle()
    again = await driver.acquire(run, "a")
    settled = await driver.begin(again, name="fax")
    assert settled == EffectSettled(f"{prefix}/fax", b'{"page": 12345678901234567890}')
    repeated = await driver.begin(again, name="mail", kind=EffectKind.PROVIDER)
    assert isinstance(repeated, EffectBegun)
    assert repeated.effect.calls == 2
    await driver.succeed(again)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_r8_a_handler_whose_unkeyed_call_is_unknown_waits_for_a_person(
    driver: Driver,
) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    fax = beginning(granted, name="fax", kind=EffectKind.NONE)
    await driver.submit(run, fax)
    key = f"{granted.step.effect_prefix}/fax"
    assert await driver.tell(run, fax, key, EffectOutcome.UNKNOWN, note="busy") == Suspended()
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    assert await driver.succeed(granted) == Stale()
    (effect,) = await driver.engine.effects(run)
    assert effect.call is not None
    assert (effect.status, effect.call.note) == (EffectStatus.NEEDS_REVIEW, "busy")


async def test_r8_a_provider_that_may_have_forgotten_its_key_is_not_called_under_it(
    driver: Driver,
) -> None:
    call = {"url": "https://pay.example", "method": "POST"}
    await driver.publish({"a": {"http": {**call, "effect": {"kind": "provider", "keep": "15s"}}}})
    run = await driver.start()
    for _ in range(2):  # the second take comes 11 s after the first call, within the 15 s
        await driver.acquire(run, "a")
        await driver.engine.advance(11)
        await driver.expire_due()
    step = await driver.step(run, "a")
    assert await driver.submit(run, Acquire(step.step, uuid4(), "w")) == Gone()
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.NEEDS_REVIEW, 2)
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING


async def test_r8_a_handlers_key_that_its_provider_may_have_forgotten_is_left_to_a_person(
    driver: Driver,
) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}}})
    run = await driver.start()
    keyed = {"kind": EffectKind.PROVIDER, "keep": 15.0}
    assert isinstance(await driver.begin(await driver.acquire(run, "a"), **keyed), EffectBegun)
    await driver.engine.advance(11)
    await driver.expire_due()
    again = await driver.acquire(run, "a")
    assert isinstance(await driver.begin(again, **keyed), EffectBegun)
    await driver.engine.advance(11)
    await driver.settle()
    assert await driver.begin(await driver.acquire(run, "a"), **keyed) == Suspended("review")


async def test_p4_a_report_with_the_outcome_of_a_begun_call_is_repeated_with_the_same_answer(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    granted = await driver.call(run, "a")
    report = success(granted, b"1")
    assert await driver.submit(run, report) == Applied()
    before = await driver.engine.effects(run)
    assert await driver.submit(run, report) == Applied()
    assert await driver.engine.effects(run) == before


async def test_a_deadline_ends_a_step_that_waits_for_a_person(driver: Driver) -> None:
    await driver.publish({"a": {**FAX["a"], "deadline": "60s"}})
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.UNKNOWN)
    await driver.engine.advance(61)
    await driver.settle()
    step = await driver.step(run, "a")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert step.error.category == ErrorClass.PERMANENT
    assert step.error.code == "DEADLINE"


async def test_r8_a_try_that_fails_after_its_call_is_settled_leaves_the_result_to_the_next(
    driver: Driver,
) -> None:
    await driver.publish(FAX)
    run = await driver.start()
    lost = await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    assert await driver.begin(await driver.acquire(run, "a")) == Suspended("lease")
    assert await driver.succeed(lost, b'{"id":1}', effect=EffectOutcome.PERFORMED) == Stale()
    again = await driver.acquire(run, "a")
    assert isinstance(await driver.begin(again), EffectSettled)
    await driver.fail(again, code="TIMEOUT")
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF
    await driver.engine.advance(2)
    await driver.fire_due()
    third = await driver.acquire(run, "a")
    settled = await driver.begin(third)
    assert isinstance(settled, EffectSettled)
    assert settled.result == b'{"id":1}'
    await driver.succeed(third, b'{"id":1}', effect=EffectOutcome.PERFORMED)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
