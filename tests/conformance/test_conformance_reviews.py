"""What people decide about calls of which nobody else knows (protocols p4 and p8)."""

from __future__ import annotations

from uuid import UUID

import pytest
from perdure_machine.events import (
    Acquire,
    CancelRun,
    DecideEffect,
    GivenUp,
    NotPerformed,
    PauseRun,
    Performed,
    ResumeRun,
)
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Done, EffectBegun, EffectSettled, Gone, Stale
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus
from perdure_machine.view import NodeError
from perdure_runtime.errors import FailedPrecondition, NotFound, Reason
from perdure_testkit.engines.driver import Driver, beginning, new_lease

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAX = {"http": {"url": "https://fax.example", "method": "POST"}, "retry": {"max": 3}}
KEPT = {
    "url": "https://pay.example",
    "method": "POST",
    "effect": {"kind": "provider", "keep": "10s"},
}
GAVE_UP = GivenUp(NodeError(ErrorClass.PERMANENT, "LOST", "the other side is gone"))


async def in_review(driver: Driver, **members: object) -> tuple[UUID, str]:
    """Return a run whose fax nobody knows of, and the key of that."""
    await driver.publish({"a": {**FAX, **members}})
    run = await driver.start()
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.UNKNOWN)
    return run, f"{run}/a/request"


async def forgotten(driver: Driver) -> tuple[UUID, str]:
    """Return a run whose payment was lost, under a key that its provider may have forgotten."""
    await driver.publish({"a": {"http": KEPT}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    assert await driver.submit(run, Acquire(granted.step.step, new_lease(), "w")) == Gone()
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    return run, f"{run}/a/request"


async def lapsed(driver: Driver) -> tuple[UUID, str]:
    """Return a run whose fax was lost with its worker, its lease over, and its next try queued."""
    await driver.publish({"a": FAX})
    run = await driver.start()
    await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.engine.advance(30)
    await driver.settle()
    return run, f"{run}/a/request"


async def decide(driver: Driver, run: UUID, key: str, decision: object) -> object:
    event = DecideEffect(key, decision, "ann", "asked them")  # type: ignore[arg-type]
    return await driver.submit(run, event)


async def refused(driver: Driver, run: UUID, key: str, decision: object) -> str:
    with pytest.raises(FailedPrecondition) as refusal:
        await decide(driver, run, key, decision)
    return str(refusal.value.reason)


async def test_r12_a_person_settles_a_call_with_what_it_came_to(driver: Driver) -> None:
    run, key = await in_review(driver, result="${nodes.a.output.pages}")
    told = Performed(b'{"pages": 12345678901234567890}')
    assert await decide(driver, run, key, told) == Done(changed=True)
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"a":12345678901234567890}')
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED


async def test_a_person_has_a_call_made_again_under_its_key(driver: Driver) -> None:
    run, key = await in_review(driver)
    assert await decide(driver, run, key, NotPerformed()) == Done(changed=True)
    granted = await driver.acquire(run, "a")
    again = await driver.begin(granted)
    assert isinstance(again, EffectBegun)
    assert (again.effect.key, again.effect.calls) == (key, 2)
    await driver.succeed(granted)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_person_lets_the_step_fail_and_its_node_may_catch_that(driver: Driver) -> None:
    run, key = await in_review(driver, on_failure=[{"output": "${error.code}"}])
    assert await decide(driver, run, key, GAVE_UP) == Done(changed=True)
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"a":"LOST"}')
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.GIVEN_UP


async def test_a_decision_is_recorded_with_who_made_it(driver: Driver) -> None:
    run, key = await in_review(driver)
    await decide(driver, run, key, NotPerformed())
    assert await driver.engine.decisions(run) == [(key, "refused", "ann")]
    assert "effect_decided" in await driver.kinds(run)


async def test_p4_a_second_decision_is_refused_and_the_same_one_changes_nothing(
    driver: Driver,
) -> None:
    run, key = await in_review(driver)
    await decide(driver, run, key, GAVE_UP)
    assert await decide(driver, run, key, GAVE_UP) == Done(changed=False)
    assert await refused(driver, run, key, Performed(b"1")) == Reason.EFFECT_DECIDED
    assert len(await driver.engine.decisions(run)) == 1


async def test_p4_a_decision_after_a_late_answer_is_refused(driver: Driver) -> None:
    await driver.publish({"a": FAX})
    run = await driver.start()
    late = await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.engine.advance(30)
    await driver.settle()
    await driver.begin(await driver.acquire(run, "a"))
    await driver.succeed(late, b"1")
    assert await refused(driver, run, f"{run}/a/request", NotPerformed()) == Reason.EFFECT_DECIDED


async def test_p4_nobody_decides_about_a_call_that_is_open_or_will_be_asked_about(
    driver: Driver,
) -> None:
    await driver.publish({"a": FAX})
    run = await driver.start()
    await driver.call(run, "a")
    assert await refused(driver, run, f"{run}/a/request", NotPerformed()) == Reason.EFFECT_OPEN
    run, key = await lapsed(driver)
    assert await refused(driver, run, key, NotPerformed()) == Reason.EFFECT_OPEN
    with pytest.raises(NotFound):
        await decide(driver, run, f"{run}/b/request", NotPerformed())


async def test_p4_a_repeat_under_a_forgotten_key_is_decided_knowing_that(driver: Driver) -> None:
    run, key = await forgotten(driver)
    assert await refused(driver, run, key, NotPerformed()) == Reason.EFFECT_KEY_EXPIRED
    sure = NotPerformed(although_key_expired=True)
    assert await decide(driver, run, key, sure) == Done(changed=True)
    granted = await driver.acquire(run, "a")
    assert granted.effect is not None
    assert granted.effect.calls == 2
    await driver.succeed(granted)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_call_that_rode_on_its_lease_is_settled_by_a_person_as_well(
    driver: Driver,
) -> None:
    run, key = await forgotten(driver)
    await decide(driver, run, key, Performed(b"7"))
    assert (await driver.engine.run(run)).output == b'{"a":7}'


async def test_a_late_report_of_a_call_that_rode_on_its_lease_ends_the_review(
    driver: Driver,
) -> None:
    await driver.publish({"a": {"http": KEPT}})
    run = await driver.start()
    late = await driver.acquire(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    assert await driver.submit(run, Acquire(late.step.step, new_lease(), "w")) == Gone()
    assert await driver.succeed(late, b"7") == Stale()
    assert (await driver.engine.run(run)).output == b'{"a":7}'


async def test_a_handler_goes_on_with_what_a_person_has_found_out(driver: Driver) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}}})
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    fax = beginning(granted, name="fax")
    await driver.submit(run, fax)
    key = f"{granted.step.effect_prefix}/fax"
    await driver.tell(run, fax, key, EffectOutcome.UNKNOWN)
    await decide(driver, run, key, Performed(b'"sent"'))
    again = await driver.acquire(run, "a")
    assert await driver.begin(again, name="fax") == EffectSettled(key, b'"sent"')
    await driver.succeed(again)


async def test_a_resume_leaves_a_step_with_the_person_that_it_waits_for(driver: Driver) -> None:
    run, key = await in_review(driver)
    await driver.submit(run, PauseRun())
    await driver.settle()
    await driver.submit(run, ResumeRun())
    await driver.settle()
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    await decide(driver, run, key, NotPerformed())
    assert (await driver.step(run, "a")).status is StepStatus.QUEUED


async def test_a_decision_in_a_paused_run_takes_effect_when_it_is_resumed(driver: Driver) -> None:
    run, key = await in_review(driver)
    await driver.submit(run, PauseRun())
    await driver.settle()
    await decide(driver, run, key, NotPerformed())
    assert list(await driver.engine.queued()) == []
    await driver.submit(run, ResumeRun())
    await driver.settle()
    await driver.succeed(await driver.call(run, "a"))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_call_of_a_run_that_ended_may_be_decided_for_the_record(driver: Driver) -> None:
    run, key = await in_review(driver)
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.CANCELLED
    await decide(driver, run, key, Performed(b"1"))
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.SETTLED
