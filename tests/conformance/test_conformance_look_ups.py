"""Calls that are looked up before they are repeated (protocol p4, kind `reconcile`)."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from perdure_machine.capacity import cause_of
from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import BeginEffect, ExpireLease
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import (
    EffectBegun,
    EffectRefused,
    EffectSettled,
    EffectToLookUp,
    Granted,
    Suspended,
)
from perdure_machine.states import EffectOutcome, EffectStatus, RunStatus, StepStatus
from perdure_testkit.engines.driver import Driver, beginning
from perdure_testkit.engines.port import Bears

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOOKUP = {"url": "https://crm.example/people/${input.id}"}
INPUT = b'{"id": "p7"}'


def upsert(*, retries: object = 3, **members: object) -> dict[str, object]:
    effect = {"kind": "reconcile", "lookup": {**LOOKUP, **members}}
    call = {"url": "https://crm.example/people", "method": "POST", "effect": effect}
    return {"a": {"http": call, "retry": {"max": retries}}}


def charge(**members: object) -> dict[str, object]:
    """Return a node that calls a method, which another one looks up."""
    effect = {"kind": "reconcile", "lookup": {"method": "Find", **members}}
    call = {"target": "pay.example:443", "service": "shop.v1.Payments", "method": "Charge"}
    return {"a": {"grpc": {**call, "effect": effect}, "retry": {"max": 3}}}


async def lost_in_the_call(driver: Driver, nodes: dict[str, object]) -> UUID:
    """Return a run whose call was lost with its worker, and whose lease is over."""
    await driver.publish(nodes)
    run = await driver.start(INPUT)
    await driver.call(run, "a")
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.engine.advance(30)
    await driver.settle()
    return run


async def looking_up(driver: Driver, run: UUID) -> tuple[Granted, BeginEffect]:
    """Take the step and be told to look its call up."""
    granted = await driver.acquire(run, "a")
    event = beginning(granted)
    assert await driver.submit(run, event) == EffectToLookUp(f"{run}/a/request")
    return granted, event


def answer(status: int, body: object) -> bytes:
    return json.dumps({"status": status, "headers": {}, "body": body}).encode()


def expired(granted: Granted) -> ExpireLease:
    step = granted.step
    assert step.lease_id is not None
    return ExpireLease(step.step, step.fence, step.lease_id, timed_out=False)


ASKED = {"method": "POST", "headers": {"X-Who": "${input.id}"}, "body": {"ref": "${input.id}"}}
CALLED = {"request": {"ref": "${input.id}"}, "metadata": {"x": "${input.id}"}}
REQUEST = {
    "method": "POST",
    "url": "https://crm.example/people/p7",
    "headers": {"X-Who": "p7"},
    "body": {"ref": "p7"},
}
METHOD = {
    "service": "shop.v1.Ledger",
    "method": "Find",
    "request": {"ref": "p7"},
    "metadata": {"x": "p7"},
}


@pytest.mark.parametrize(
    ("nodes", "lookup"),
    [
        (upsert(**ASKED, found="answer.body.total > 0"), REQUEST),
        (charge(**CALLED, service="shop.v1.Ledger", found="answer.total > 0"), METHOD),
    ],
    ids=["http", "grpc"],
)
async def test_the_request_of_a_look_up_comes_with_the_step(
    driver: Driver, nodes: dict[str, object], lookup: dict[str, object]
) -> None:
    await driver.publish(nodes)
    run = await driver.start(INPUT)
    granted = await driver.acquire(run, "a")
    assert granted.begins is not None
    assert (granted.begins.kind, granted.begins.can_look_up) == (EffectKind.RECONCILE, True)
    assert granted.step.input is not None
    assert json.loads(granted.step.input)["lookup"] == lookup


@pytest.mark.parametrize(
    ("nodes", "found"),
    [(upsert(), b'{"status":200,"headers":{},"body":{"id":7}}'), (charge(), b'{"status":404}')],
    ids=["http", "grpc"],
)
async def test_r8_a_lost_call_that_was_performed_is_found_and_not_repeated(
    driver: Driver, nodes: dict[str, object], found: bytes
) -> None:
    run = await lost_in_the_call(driver, nodes)
    granted, event = await looking_up(driver, run)
    key = f"{run}/a/request"
    told = await driver.tell(run, event, key, EffectOutcome.ANSWERED, result=found)
    assert told == EffectSettled(key, found)
    await driver.succeed(granted, found)
    (effect,) = await driver.engine.effects(run)
    assert (effect.status, effect.calls) == (EffectStatus.SETTLED, 1)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("nodes", "outcome", "result"),
    [
        (upsert(), EffectOutcome.ANSWERED, b'{"status":404,"headers":{},"body":null}'),
        (upsert(), EffectOutcome.ANSWERED, b'{"status":410,"headers":{},"body":null}'),
        (charge(), EffectOutcome.NOT_PERFORMED, b""),
    ],
    ids=["http 404", "http 410", "grpc"],
)
async def test_r8_a_lost_call_that_is_not_found_is_made_again_under_its_key(
    driver: Driver, nodes: dict[str, object], outcome: EffectOutcome, result: bytes
) -> None:
    run = await lost_in_the_call(driver, nodes)
    granted, event = await looking_up(driver, run)
    key = f"{run}/a/request"
    assert await driver.tell(run, event, key, outcome, result=result) == EffectRefused()
    again = await driver.begin(granted)
    assert isinstance(again, EffectBegun)
    assert (again.effect.key, again.effect.calls) == (key, 2)
    await driver.succeed(granted)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize(("hits", "is_found"), [([{"id": 7}], True), ([], False)])
async def test_the_definition_says_what_the_answer_to_a_look_up_means(
    driver: Driver, hits: list[object], *, is_found: bool
) -> None:
    reading = {"found": "size(answer.body.hits) > 0", "output": "${answer.body.hits[0]}"}
    run = await lost_in_the_call(driver, upsert(**reading))
    _, event = await looking_up(driver, run)
    key = f"{run}/a/request"
    found = answer(200, {"hits": hits})
    told = await driver.tell(run, event, key, EffectOutcome.ANSWERED, result=found)
    assert told == (EffectSettled(key, b'{"id": 7}') if is_found else EffectRefused())


@pytest.mark.parametrize(("charges", "is_found"), [([{"id": "c1"}], True), ([], False)])
async def test_the_definition_says_what_the_message_of_a_look_up_means(
    driver: Driver, charges: list[object], *, is_found: bool
) -> None:
    reading = {"found": "size(answer.charges) > 0", "output": "${answer.charges[0]}"}
    run = await lost_in_the_call(driver, charge(**reading))
    _, event = await looking_up(driver, run)
    key, found = f"{run}/a/request", json.dumps({"charges": charges}).encode()
    told = await driver.tell(run, event, key, EffectOutcome.ANSWERED, result=found)
    assert told == (EffectSettled(key, b'{"id": "c1"}') if is_found else EffectRefused())


@pytest.mark.parametrize(
    "nodes",
    [upsert(found="answer.body.total > 0"), charge(found="answer.total > 0")],
    ids=["http", "grpc"],
)
async def test_r8_an_answer_that_cannot_be_read_tells_nothing(
    driver: Driver, nodes: dict[str, object]
) -> None:
    run = await lost_in_the_call(driver, nodes)
    _, event = await looking_up(driver, run)
    key = f"{run}/a/request"
    told = await driver.tell(run, event, key, EffectOutcome.ANSWERED, result=answer(200, "maybe"))
    assert told == Suspended()
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF


async def test_p4_a_look_up_that_tells_nothing_is_made_later_and_in_the_end_by_a_person(
    driver: Driver,
) -> None:
    run = await lost_in_the_call(driver, upsert())
    key, delays = f"{run}/a/request", []
    for _ in range(7):
        _, event = await looking_up(driver, run)
        told = await driver.tell(run, event, key, EffectOutcome.UNKNOWN, note="503", jitter=0.99)
        assert told == Suspended()
        (timer,) = [one for one in await driver.engine.timers() if one.step == 1]
        delays.append(timer.remaining)
        await driver.engine.advance(301)
        await driver.settle()
    assert delays == sorted(delays)
    _, event = await looking_up(driver, run)
    assert await driver.tell(run, event, key, EffectOutcome.UNKNOWN) == Suspended()
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    (effect,) = await driver.engine.effects(run)
    assert effect.status is EffectStatus.NEEDS_REVIEW


@pytest.mark.parametrize("nodes", [upsert(), charge()], ids=["http", "grpc"])
async def test_p8_a_look_up_that_is_refused_is_made_again_when_its_connection_is_repaired(
    driver: Driver, nodes: dict[str, dict[str, object]]
) -> None:
    await driver.engine.put_connection(driver.org, "crm", Bears())
    run = await lost_in_the_call(driver, {"a": {**nodes["a"], "connection": "crm"}})
    granted, _ = await looking_up(driver, run)
    await driver.fail(granted, ErrorClass.AUTHORISATION, effect=EffectOutcome.UNKNOWN)
    step = await driver.step(run, "a")
    assert step.parked is not None
    assert (step.status, step.parked.cause) == (StepStatus.PARKED, cause_of("crm"))
    await driver.engine.repair_connection(driver.org, "crm")
    await driver.settle()
    granted, event = await looking_up(driver, run)
    key, found = f"{run}/a/request", b'{"status":200}'
    told = await driver.tell(run, event, key, EffectOutcome.ANSWERED, result=found)
    assert told == EffectSettled(key, found)
    await driver.succeed(granted, found)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_r5_a_repeated_wish_to_look_up_counts_once(driver: Driver) -> None:
    run = await lost_in_the_call(driver, upsert())
    _, event = await looking_up(driver, run)
    assert await driver.submit(run, event) == EffectToLookUp(f"{run}/a/request")
    (effect,) = await driver.engine.effects(run)
    assert effect.call is not None
    assert effect.call.lookups == 1


async def test_p4_a_look_up_that_is_lost_with_its_worker_is_made_by_the_next(
    driver: Driver,
) -> None:
    run = await lost_in_the_call(driver, upsert())
    await looking_up(driver, run)
    await driver.engine.advance(11)
    await driver.expire_due()
    await looking_up(driver, run)


async def test_p4_a_failed_call_of_unknown_outcome_is_looked_up_whatever_its_retries(
    driver: Driver,
) -> None:
    await driver.publish(upsert(retries=0))
    run = await driver.start(INPUT)
    await driver.fail(await driver.call(run, "a"), effect=EffectOutcome.UNKNOWN)
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF
    await driver.engine.advance(301)
    await driver.settle()
    _, event = await looking_up(driver, run)
    key = f"{run}/a/request"
    told = await driver.tell(run, event, key, EffectOutcome.NOT_PERFORMED)
    assert told == Suspended()  # it may not be tried once more
    step = await driver.step(run, "a")
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    assert step.error.code == "BROKEN"


async def test_p4_a_forgotten_key_is_looked_up_where_the_definition_says_how(
    driver: Driver,
) -> None:
    effect = {"kind": "provider", "keep": "15s", "lookup": LOOKUP}
    call = {"url": "https://pay.example", "method": "POST", "effect": effect}
    await driver.publish({"a": {"http": call}})
    run = await driver.start(INPUT)
    granted = await driver.acquire(run, "a")
    assert granted.effect is not None
    await driver.engine.advance(16)
    await driver.submit(run, expired(granted))
    granted, event = await looking_up(driver, run)
    assert granted.effect is None
    key = f"{run}/a/request"
    told = await driver.tell(run, event, key, EffectOutcome.NOT_PERFORMED)
    assert told == EffectRefused()
    assert isinstance(await driver.begin(granted), EffectBegun)
    await driver.succeed(granted)
    (settled,) = await driver.engine.effects(run)
    assert (settled.kind, settled.calls) == ("reconcile", 2)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_handler_looks_its_own_effects_up(driver: Driver) -> None:
    await driver.publish({"a": {"task": {"handler": "x"}}})
    run = await driver.start()
    own = {"name": "crm", "kind": EffectKind.RECONCILE, "can_look_up": True}
    assert isinstance(await driver.begin(await driver.acquire(run, "a"), **own), EffectBegun)
    await driver.engine.advance(11)
    await driver.expire_due()
    await driver.engine.advance(30)
    await driver.settle()
    granted = await driver.acquire(run, "a")
    event = beginning(granted, **own)
    key = f"{granted.step.effect_prefix}/crm"
    assert await driver.submit(run, event) == EffectToLookUp(key)
    told = await driver.tell(run, event, key, EffectOutcome.PERFORMED, result=b'"p7"')
    assert told == EffectSettled(key, b'"p7"')
