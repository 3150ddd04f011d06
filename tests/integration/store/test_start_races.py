"""Starts of one key at the same moment, in one batch, in other orders, and with a lost answer."""

import asyncio
from dataclasses import replace

import pytest
from perdure_machine.events import CancelRun
from perdure_runtime.errors import AlreadyExists, Internal, InvalidArgument, NotFound
from perdure_runtime.fail_points import FailPointHit, Pause, Raise, arm
from perdure_store.apply.batch import OrgEvent, RunEvents
from perdure_store.apply.starter import StartAnswer, StartRequest
from perdure_testkit.database import Database
from perdure_testkit.engines.asking import start_request
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.port import StartOf
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

COMMIT = "store.commit_starts"
TASK = {"a": {"task": {"handler": "x"}}}


@pytest.fixture
async def driver(port: PostgresPort) -> Driver:
    driver = Driver(port)
    await driver.publish(TASK, input={"properties": {"n": {"type": "integer"}}})
    return driver


def request(driver: Driver, key: str | None, payload: bytes = b"{}") -> StartRequest:
    return start_request(ORG, StartOf(driver.workflow, payload, start_key=key))


async def counts(port: PostgresPort) -> tuple[int, int, int]:
    """Return how many runs, keys and queued steps there are."""
    row = await port.admin.fetchrow(
        "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM start_keys),"
        " (SELECT count(*) FROM outbox)"
    )
    assert row is not None
    return tuple(row)


async def test_f119_p7_of_two_starts_at_the_same_moment_one_makes_the_run(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    rival = await database.connect("coordinator")
    with arm(COMMIT, "before", pause := Pause()):
        first = asyncio.create_task(port.starter.start(port.coordinator, [request(driver, "k")]))
        await pause.reached.wait()
        second = asyncio.create_task(port.starter.start(rival, [request(driver, "k")]))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        (won,), (lost,) = await first, await second
    assert isinstance(won, StartAnswer)
    assert won.created
    assert lost == StartAnswer(won.run_id, won.workflow_version, created=False)
    assert await counts(port) == (1, 1, 1)


async def test_p7_when_the_first_of_two_starts_is_rolled_back_the_second_makes_the_run(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    holder = await database.connect("coordinator")
    ending = holder.transaction()
    await ending.start()
    await holder.execute(
        "INSERT INTO start_keys VALUES ($1, 'k', gen_random_uuid(), '', clock_timestamp())", ORG
    )
    starting = asyncio.create_task(port.starter.start(port.coordinator, [request(driver, "k")]))
    await wait_until_blocked(holder)
    await ending.rollback()
    (answer,) = await starting
    assert isinstance(answer, StartAnswer)
    assert answer.created
    assert await counts(port) == (1, 1, 1)


async def test_r14_starts_that_claim_the_same_keys_in_other_orders_do_not_deadlock(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    rival = await database.connect("coordinator")
    keys = ["k1", "k2", "k3"]
    with arm(COMMIT, "before", pause := Pause()):
        first = asyncio.create_task(
            port.starter.start(port.coordinator, [request(driver, key) for key in keys])
        )
        await pause.reached.wait()
        second = asyncio.create_task(
            port.starter.start(rival, [request(driver, key) for key in reversed(keys)])
        )
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        made, found = await first, await second
    assert [a.run_id for a in made if isinstance(a, StartAnswer)] == [
        a.run_id for a in reversed(found) if isinstance(a, StartAnswer)
    ]
    assert await counts(port) == (3, 3, 3)


async def test_p7_a_key_several_times_in_one_batch_is_one_run_of_the_same_version(
    driver: Driver, port: PostgresPort
) -> None:
    first, again, other, free = await port.starter.start(
        port.coordinator,
        [
            request(driver, "k"),
            request(driver, "k"),
            request(driver, "k", b'{"n": 1}'),
            request(driver, None),
        ],
    )
    assert isinstance(first, StartAnswer)
    assert again == StartAnswer(first.run_id, first.workflow_version, created=False)
    assert isinstance(other, AlreadyExists)
    assert other.metadata["run_id"] == str(first.run_id)
    assert isinstance(free, StartAnswer)
    assert await counts(port) == (2, 1, 2)


async def test_a_start_that_is_refused_hinders_no_other_of_its_batch(
    driver: Driver, port: PostgresPort
) -> None:
    unknown = start_request(ORG, StartOf("nobody", start_key="k"))
    wrong = request(driver, "k", b'{"n": "x"}')
    outcomes = await port.starter.start(port.coordinator, [unknown, wrong, request(driver, "k")])
    assert [type(outcome) for outcome in outcomes] == [NotFound, InvalidArgument, StartAnswer]
    assert await counts(port) == (1, 1, 1)


async def test_p1_a_start_that_the_database_refuses_hinders_no_other_of_its_batch(
    driver: Driver, port: PostgresPort
) -> None:
    too_long = request(driver, "k" * 201)
    too_urgent = replace(request(driver, None), priority=10**6)
    fine = request(driver, "k")
    outcomes = await port.starter.start(port.coordinator, [too_long, too_urgent, fine])
    assert [type(outcome) for outcome in outcomes] == [InvalidArgument, Internal, StartAnswer]
    assert await counts(port) == (1, 1, 1)


@pytest.mark.parametrize(("side", "made"), [("before", 0), ("after", 1)])
async def test_p7_f062_a_start_whose_answer_was_lost_is_repeated_by_its_key(
    driver: Driver, port: PostgresPort, side: str, made: int
) -> None:
    with arm(COMMIT, side, Raise()), pytest.raises(FailPointHit):
        await driver.start(start_key="k")
    assert await counts(port) == (made, made, made)
    assert port.committed == []
    again = await driver.started(start_key="k")
    assert again.created == (made == 0)
    assert await counts(port) == (1, 1, 1)


async def test_p7_a_start_that_meets_the_end_of_its_keys_run_gets_that_run(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    run = await driver.start(start_key="k")
    rival = await database.connect("coordinator")
    cancel = RunEvents(run, (OrgEvent(ORG, CancelRun()),))
    with arm("store.commit_events", "before", pause := Pause()):
        ending = asyncio.create_task(port.applier.apply(port.coordinator, [cancel], wait=True))
        await pause.reached.wait()
        starting = asyncio.create_task(port.starter.start(rival, [request(driver, "k")]))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        await ending
    assert await starting == [StartAnswer(run, 1, created=False)]
    await driver.settle()


async def test_a_run_that_ends_as_it_starts_lets_its_key_end_too(
    port: PostgresPort, driver: Driver
) -> None:
    await driver.publish({"t": {"transform": 1}})
    await driver.start(start_key="k")
    ends = await port.admin.fetchval(
        "SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM start_keys"
    )
    assert float(ends) == pytest.approx(7 * 86_400, abs=60)
