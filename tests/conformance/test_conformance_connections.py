"""Connections: places, rates and breakers that block steps, and refused ones that park them."""

import json
from collections.abc import Sequence
from uuid import UUID

import pytest
from perdure_machine.capacity import cause_of
from perdure_machine.decide.parking import PAUSE
from perdure_machine.events import (
    Acquire,
    CancelRun,
    PauseRun,
    Release,
    ResumeRun,
)
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Blocked, Gone, Granted, Reply
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import Parked
from perdure_runtime.errors import PerdureError
from perdure_testkit.engines.driver import Driver, lease_of, new_lease, offer_of
from perdure_testkit.engines.port import Bears

pytestmark = pytest.mark.asyncio(loop_scope="session")

CRM = {"task": {"handler": "x"}, "connection": "crm"}
SENDS = {f"send{number}": CRM for number in range(4)}


async def crm(driver: Driver, **bears: object) -> None:
    await driver.engine.put_connection(driver.org, "crm", Bears(**bears))  # type: ignore[arg-type]


async def ask(driver: Driver, run: UUID, node: str) -> Reply:
    step = await driver.step(run, node)
    return await driver.submit(run, Acquire(step.step, new_lease(), "worker"))


async def ask_all(driver: Driver, run: UUID) -> Sequence[Reply | PerdureError]:
    asks = [Acquire(step.step, new_lease(), "w") for step in await driver.engine.steps(run)]
    return await driver.engine.submit(driver.org, run, *asks)


async def granted(driver: Driver, run: UUID, node: str = "send") -> Granted:
    reply = await ask(driver, run, node)
    assert isinstance(reply, Granted)
    return reply


async def test_a_step_is_told_which_connection_it_uses(driver: Driver) -> None:
    await crm(driver)
    await driver.publish({"send": CRM})
    assert (await granted(driver, await driver.start())).connection == "crm"


async def test_an_expression_gives_the_connection_and_every_try_has_the_same(
    driver: Driver,
) -> None:
    await crm(driver)
    await driver.publish({"send": {**CRM, "connection": "${input.account}"}})
    run = await driver.start(b'{"account": "crm"}')
    first = await granted(driver, run)
    step = first.step
    assert step.lease_id is not None
    await driver.submit(run, Release(step.step, step.fence, step.lease_id))
    second = await granted(driver, run)
    assert (first.connection, second.connection) == ("crm", "crm")
    await driver.succeed(second)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_an_expression_that_gives_no_name_fails_the_node(driver: Driver) -> None:
    await driver.publish({"send": {**CRM, "connection": "${input.account}"}})
    run = await driver.start(b'{"account": "No Such Name"}')
    error = (await driver.engine.run(run)).error
    assert error is not None
    assert (error.code, error.node) == ("EXPRESSION_TYPE", "send")


async def test_no_more_steps_run_than_a_connection_has_places_for(driver: Driver) -> None:
    await crm(driver, slots=3)
    await driver.publish(SENDS)
    run = await driver.start()
    replies = await ask_all(driver, run)
    assert [type(reply) for reply in replies] == [Granted, Granted, Granted, Blocked]
    assert await driver.engine.in_use(driver.org, "crm") == 3
    assert list(await driver.engine.queued()) == []
    assert (await driver.step(run, "send3")).status is StepStatus.QUEUED


async def test_f072_a_place_that_is_given_back_lets_one_blocked_step_go_at_once(
    driver: Driver,
) -> None:
    await crm(driver, slots=1)
    await driver.publish(SENDS)
    run = await driver.start()
    first, *_ = await ask_all(driver, run)
    assert isinstance(first, Granted)
    await driver.succeed(first)
    (free,) = await driver.engine.queued()
    assert free[1] == 2
    assert isinstance(await driver.submit(run, Acquire(2, new_lease(), "w")), Granted)


@pytest.mark.parametrize("how", ["succeed", "fail", "release", "lose", "cancel"])
async def test_however_an_acquisition_ends_its_place_is_given_back(
    driver: Driver, how: str
) -> None:
    await crm(driver, slots=1)
    await driver.publish({"send": CRM})
    run = await driver.start()
    one = await granted(driver, run)
    assert await driver.engine.in_use(driver.org, "crm") == 1
    assert one.step.lease_id is not None
    match how:
        case "succeed":
            await driver.succeed(one)
        case "fail":
            await driver.fail(one, ErrorClass.PERMANENT)
        case "release":
            await driver.submit(run, Release(one.step.step, one.step.fence, one.step.lease_id))
        case "lose":
            await driver.engine.advance(11.0)
            await driver.expire_due()
        case _:
            await driver.submit(run, CancelRun())
            await driver.settle()
            await driver.succeed(one)
    assert await driver.engine.in_use(driver.org, "crm") == 0


async def test_f068_a_step_that_backs_off_holds_no_place(driver: Driver) -> None:
    await crm(driver, slots=1)
    await driver.publish(SENDS)
    run = await driver.start()
    first, *_ = await ask_all(driver, run)
    assert isinstance(first, Granted)
    await driver.fail(first)
    assert (await driver.step(run, "send0")).status is StepStatus.BACKING_OFF
    assert await driver.engine.in_use(driver.org, "crm") == 0
    assert isinstance(await ask(driver, run, "send1"), Granted)


async def test_p4_a_step_that_is_refused_its_lease_takes_no_place(driver: Driver) -> None:
    await crm(driver, slots=1)
    await driver.publish({"send": CRM})
    run = await driver.start()
    step = await driver.step(run, "send")
    await driver.submit(run, CancelRun())
    assert await driver.submit(run, Acquire(step.step, new_lease(), "w")) == Gone()
    assert await driver.engine.in_use(driver.org, "crm") == 0


async def test_p3_a_repeated_ask_gets_the_same_grant_and_no_second_place(driver: Driver) -> None:
    await crm(driver, slots=2)
    await driver.publish({"send": CRM})
    run = await driver.start()
    one = await granted(driver, run)
    again = await driver.submit(run, Acquire(1, one.step.lease_id or UUID(int=0), "w"))
    assert isinstance(again, Granted)
    assert again.connection == "crm"
    assert await driver.engine.in_use(driver.org, "crm") == 1


async def test_while_more_run_than_a_lowered_limit_nothing_more_begins(driver: Driver) -> None:
    await crm(driver, slots=3)
    await driver.publish(SENDS)
    run = await driver.start()
    one, two, three, _ = await ask_all(driver, run)
    await crm(driver, slots=1)
    assert isinstance(one, Granted)
    assert isinstance(two, Granted)
    assert isinstance(three, Granted)
    await driver.succeed(one)
    assert await ask(driver, run, "send3") == Blocked()
    await driver.succeed(two)
    await driver.succeed(three)
    await driver.engine.unblock()
    assert isinstance(await ask(driver, run, "send3"), Granted)


async def test_a_raised_limit_lets_blocked_steps_go(driver: Driver) -> None:
    await crm(driver, slots=1)
    await driver.publish(SENDS)
    run = await driver.start()
    await ask_all(driver, run)
    await crm(driver, slots=3)
    assert len(await driver.engine.queued()) == 2


async def test_a_rate_lets_so_many_begin_and_more_as_time_passes(driver: Driver) -> None:
    await crm(driver, rate=0.1, burst=2.0)
    await driver.publish(SENDS)
    run = await driver.start()
    replies = await ask_all(driver, run)
    assert [type(reply) for reply in replies] == [Granted, Granted, Blocked, Blocked]
    await driver.engine.unblock()
    assert list(await driver.engine.queued()) == []
    await driver.engine.advance(10.0)
    await driver.engine.unblock()
    assert len(await driver.engine.queued()) == 1
    assert isinstance(await ask(driver, run, "send2"), Granted)


async def test_a_chained_step_takes_its_place_with_the_report(driver: Driver) -> None:
    await crm(driver, slots=1)
    await driver.publish({"first": {"task": {"handler": "x"}}, "send": {**CRM, "needs": ["first"]}})
    run = await driver.start()
    first = await driver.acquire(run, "first")
    reply = await driver.succeed(first, offer=offer_of(f"io:{driver.org}"))
    assert isinstance(reply, Applied)
    assert reply.next is not None
    assert (reply.next.step.node, reply.next.connection) == ("send", "crm")
    assert await driver.engine.in_use(driver.org, "crm") == 1
    await driver.succeed(reply.next)
    assert await driver.engine.in_use(driver.org, "crm") == 0


async def test_a_step_without_a_place_is_queued_and_not_chained(driver: Driver) -> None:
    await crm(driver, slots=1)
    nodes = {"other": CRM, "first": {"task": {"handler": "x"}}, "send": {**CRM, "needs": ["first"]}}
    await driver.publish(nodes)
    run = await driver.start()
    await granted(driver, run, "other")
    first = await driver.acquire(run, "first")
    assert await driver.succeed(first, offer=offer_of(f"io:{driver.org}")) == Applied()
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED
    assert await ask(driver, run, "send") == Blocked()


async def open_breaker(driver: Driver, run: UUID) -> None:
    """Fail as often in a row as the connection bears."""
    await driver.fail(await granted(driver, run, "send0"))
    await driver.fail(await granted(driver, run, "send1"))


async def test_failures_in_a_row_open_the_breaker_which_blocks_and_burns_no_retries(
    driver: Driver,
) -> None:
    await crm(driver, failures=2, open_for=60.0)
    await driver.publish(SENDS)
    run = await driver.start()
    await open_breaker(driver, run)
    assert await driver.engine.is_open(driver.org, "crm")
    assert await ask(driver, run, "send2") == Blocked()
    assert (await driver.step(run, "send2")).failures == 0


async def test_a_half_open_breaker_lets_one_step_through_and_closes_when_it_goes_well(
    driver: Driver,
) -> None:
    await crm(driver, failures=2, open_for=60.0)
    await driver.publish(SENDS)
    run = await driver.start()
    await open_breaker(driver, run)
    assert await ask(driver, run, "send2") == Blocked()
    await driver.engine.advance(61.0)
    probe = await granted(driver, run, "send3")
    await driver.engine.unblock()
    assert await ask(driver, run, "send2") == Blocked()
    await driver.succeed(probe)
    assert not await driver.engine.is_open(driver.org, "crm")
    assert isinstance(await ask(driver, run, "send2"), Granted)


async def test_a_probe_that_fails_opens_the_breaker_for_longer(driver: Driver) -> None:
    await crm(driver, failures=2, open_for=60.0)
    await driver.publish(SENDS)
    run = await driver.start()
    await open_breaker(driver, run)
    await driver.engine.advance(61.0)
    await driver.fail(await granted(driver, run, "send2"))
    await driver.engine.advance(61.0)
    assert await driver.engine.is_open(driver.org, "crm")
    await driver.engine.advance(60.0)
    assert not await driver.engine.is_open(driver.org, "crm")


async def test_a_probe_whose_worker_is_lost_is_followed_by_another(driver: Driver) -> None:
    await crm(driver, failures=2, open_for=60.0)
    await driver.publish(SENDS)
    run = await driver.start()
    await open_breaker(driver, run)
    await driver.engine.advance(61.0)
    await granted(driver, run, "send2")
    assert await ask(driver, run, "send3") == Blocked()
    await driver.engine.advance(11.0)
    await driver.expire_due()
    await driver.engine.unblock()
    assert isinstance(await ask(driver, run, "send3"), Granted)


async def test_answers_of_the_provider_end_a_row_of_failures(driver: Driver) -> None:
    await crm(driver, failures=2)
    await driver.publish(SENDS, on_error="finish_others")
    run = await driver.start()
    await driver.fail(await granted(driver, run, "send0"))
    await driver.fail(await granted(driver, run, "send1"), ErrorClass.PERMANENT)
    await driver.fail(await granted(driver, run, "send2"))
    assert not await driver.engine.is_open(driver.org, "crm")


async def test_a_provider_that_asks_to_wait_is_left_alone_for_so_long(driver: Driver) -> None:
    await crm(driver)
    await driver.publish(SENDS)
    run = await driver.start()
    await driver.fail(
        await granted(driver, run, "send0"), ErrorClass.RATE_LIMITED, retry_after=300.0
    )
    assert await ask(driver, run, "send1") == Blocked()
    await driver.engine.advance(301.0)
    assert isinstance(await ask(driver, run, "send1"), Granted)


async def test_a_step_of_a_connection_that_does_not_exist_is_parked_until_it_does(
    driver: Driver,
) -> None:
    await driver.publish({"send": CRM})
    run = await driver.start()
    assert await ask(driver, run, "send") == Gone()
    step = await driver.step(run, "send")
    assert step.parked == Parked(cause_of("crm"), 1, StepStatus.QUEUED)
    await crm(driver)
    await driver.settle()
    await driver.succeed(await granted(driver, run))
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_p8_a_refused_connection_parks_the_step_and_a_repair_brings_the_same_one_back(
    driver: Driver,
) -> None:
    await crm(driver, slots=1)
    await driver.publish({"send": CRM, "later": {**CRM, "needs": ["send"]}})
    run = await driver.start()
    first = await granted(driver, run)
    await driver.fail(first, ErrorClass.AUTHORISATION, "UNAUTHORISED")
    step = await driver.step(run, "send")
    assert (step.status, step.failures) == (StepStatus.PARKED, 0)
    assert step.error is not None
    assert step.error.code == "UNAUTHORISED"
    assert await driver.engine.in_use(driver.org, "crm") == 0
    await driver.engine.repair_connection(driver.org, "crm")
    await driver.settle()
    again = await granted(driver, run)
    assert (again.step.step, again.step.fence) == (first.step.step, 2)


async def test_steps_that_were_queued_are_parked_without_asking_the_provider_again(
    driver: Driver,
) -> None:
    await crm(driver)
    await driver.publish(SENDS)
    run = await driver.start()
    await driver.fail(await granted(driver, run, "send0"), ErrorClass.AUTHORISATION)
    assert await ask(driver, run, "send1") == Gone()
    assert (await driver.step(run, "send1")).status is StepStatus.PARKED
    await driver.engine.repair_connection(driver.org, "crm")
    await driver.settle()
    assert set((await driver.statuses(run)).values()) == {"queued"}


async def test_credentials_of_before_a_repair_park_nothing(driver: Driver) -> None:
    await crm(driver)
    await driver.publish({"send": CRM})
    run = await driver.start()
    one = await granted(driver, run)
    await driver.engine.repair_connection(driver.org, "crm")
    await driver.fail(one, ErrorClass.AUTHORISATION, generation=1)
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED
    assert isinstance(await ask(driver, run, "send"), Granted)


async def test_a_rule_of_the_author_for_refusals_wins(driver: Driver) -> None:
    await crm(driver)
    await driver.publish({"send": {**CRM, "retry": {"on": ["authorisation"], "max": 1}}})
    run = await driver.start()
    await driver.fail(await granted(driver, run), ErrorClass.AUTHORISATION)
    assert (await driver.step(run, "send")).status is StepStatus.BACKING_OFF


async def test_without_a_connection_a_refusal_fails_the_node(driver: Driver) -> None:
    await driver.publish({"send": {"task": {"handler": "x"}}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "send"), ErrorClass.AUTHORISATION)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_disabled_connection_parks_and_a_repair_enables_it(driver: Driver) -> None:
    await crm(driver, slots=1)
    await driver.publish(SENDS)
    run = await driver.start()
    one, *_ = await ask_all(driver, run)
    assert isinstance(one, Granted)
    await driver.engine.disable_connection(driver.org, "crm")
    await driver.succeed(one)
    assert await ask(driver, run, "send1") == Gone()
    assert (await driver.step(run, "send1")).status is StepStatus.PARKED
    await driver.engine.repair_connection(driver.org, "crm")
    await driver.settle()
    assert isinstance(await ask(driver, run, "send1"), Granted)


async def test_the_deadline_of_a_node_passes_while_it_is_parked_on_its_connection(
    driver: Driver,
) -> None:
    await crm(driver)
    await driver.publish({"send": {**CRM, "deadline": "1h"}})
    run = await driver.start()
    await driver.fail(await granted(driver, run), ErrorClass.AUTHORISATION)
    await driver.engine.advance(3601.0)
    await driver.settle()
    error = (await driver.engine.run(run)).error
    assert error is not None
    assert error.code == "DEADLINE"


async def test_a_run_that_is_paused_keeps_what_a_repair_brings_back(driver: Driver) -> None:
    await crm(driver)
    await driver.publish({"send": CRM})
    run = await driver.start()
    await driver.fail(await granted(driver, run), ErrorClass.AUTHORISATION)
    await driver.submit(run, PauseRun())
    await driver.settle()
    await driver.engine.repair_connection(driver.org, "crm")
    await driver.settle()
    step = await driver.step(run, "send")
    assert step.parked is not None
    assert step.parked.cause == PAUSE
    await driver.submit(run, ResumeRun())
    await driver.settle()
    await driver.succeed(await granted(driver, run))


async def test_a_resume_leaves_parked_what_a_person_must_reconnect(driver: Driver) -> None:
    await crm(driver)
    await driver.publish({"send": CRM})
    run = await driver.start()
    await driver.fail(await granted(driver, run), ErrorClass.AUTHORISATION)
    await driver.submit(run, PauseRun())
    await driver.settle()
    await driver.submit(run, ResumeRun())
    await driver.settle()
    step = await driver.step(run, "send")
    assert step.parked is not None
    assert step.parked.cause == cause_of("crm")


async def test_another_org_has_connections_of_its_own(driver: Driver) -> None:
    await driver.engine.put_connection("rival", "crm", Bears(slots=1))
    await driver.publish({"send": CRM})
    run = await driver.start()
    assert await ask(driver, run, "send") == Gone()
    assert (await driver.step(run, "send")).status is StepStatus.PARKED


async def test_a_compensation_uses_the_connection_that_it_names(driver: Driver) -> None:
    await crm(driver, slots=1)
    undo = {"task": {"handler": "undo"}, "connection": "${this.output.account}"}
    nodes = {
        "send": {**CRM, "compensate": undo},
        "end": {"fail": {"code": "NO"}, "needs": ["send"]},
    }
    await driver.publish(nodes)
    run = await driver.start()
    await driver.succeed(await granted(driver, run), json.dumps({"account": "crm"}).encode())
    await driver.settle()
    undoing = await granted(driver, run, "send.compensate")
    assert undoing.connection == "crm"
    assert await driver.engine.renew(driver.org, lease_of(undoing)) is not None
    await driver.succeed(undoing)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
