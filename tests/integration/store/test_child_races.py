"""Starts of children that meet each other, and the end of their parent (protocol p5, R14)."""

import asyncio
from uuid import UUID

import pytest
from perdure_machine.events import (
    CancelRun,
    ChildForgone,
    ChildRefused,
    ChildStarted,
    FireTimer,
    TellOfChild,
)
from perdure_machine.replies import ChildUnwanted, ChildWanted
from perdure_machine.states import RunStatus, TimerKind
from perdure_runtime.errors import AlreadyExists
from perdure_runtime.fail_points import Pause, arm
from perdure_store.apply.child_starts import answer_parent, forgo_child
from perdure_store.apply.starter import StartOutcome, StartRequest
from perdure_store.pool import Connection
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.postgres import RETENTION, PostgresPort
from perdure_testkit.waiting import wait_until_blocked


@pytest.fixture
async def parent(driver: Driver, port: PostgresPort) -> UUID:
    """A run whose child is to be started."""
    child = Driver(port)
    await child.publish({"work": {"task": {"handler": "x"}}})
    await driver.publish({"call": {"run": {"workflow": child.workflow}}})
    return await driver.start()


async def start_timer(port: PostgresPort) -> int:
    (timer,) = [one for one in await port.timers() if one.kind is TimerKind.START_CHILD]
    return timer.timer_id


async def wanted(driver: Driver, port: PostgresPort, run: UUID) -> ChildWanted:
    reply = await driver.submit(run, FireTimer(await start_timer(port)))
    assert isinstance(reply, ChildWanted)
    return reply


async def start(port: PostgresPort, connection: Connection, asked: ChildWanted) -> object:
    """Do what a parent asks, over a connection of somebody's."""

    async def starting(request: StartRequest) -> StartOutcome:
        (outcome,) = await port.starter.start(connection, [request])
        return outcome

    async def forgoing(org: str, key: str) -> ChildStarted | ChildForgone:
        return await forgo_child(connection, org, key, retention=RETENTION)

    return await answer_parent(ORG, asked, starting, forgoing)


async def runs(port: PostgresPort) -> int:
    return int(await port.admin.fetchval("SELECT count(*) FROM runs"))


async def test_two_coordinators_that_deliver_one_start_at_once_start_one_run(
    driver: Driver, port: PostgresPort, database: Database, parent: UUID
) -> None:
    rival = await database.connect("coordinator")
    asked = await wanted(driver, port, parent)
    with arm("store.commit_starts", "before", pause := Pause()):
        first = asyncio.create_task(start(port, port.coordinator, asked))
        await pause.reached.wait()
        second = asyncio.create_task(start(port, rival, asked))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        outcomes = await asyncio.gather(first, second)
    assert isinstance(outcomes[0], ChildStarted)
    assert outcomes[0] == outcomes[1]
    assert await runs(port) == 2


async def test_a_start_that_waits_for_the_taking_of_its_key_starts_nothing(
    driver: Driver, port: PostgresPort, database: Database, parent: UUID
) -> None:
    """A coordinator that stood still since the parent wanted the child comes too late."""
    stalled = await database.connect("coordinator")
    asked = await wanted(driver, port, parent)
    await driver.submit(parent, CancelRun())
    with arm("store.commit_forgoing", "before", pause := Pause()):
        forgoing = asyncio.create_task(
            forgo_child(port.coordinator, ORG, asked.start_key, retention=RETENTION)
        )
        await pause.reached.wait()
        late = asyncio.create_task(start(port, stalled, asked))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        assert await forgoing == ChildForgone()
        refused = await late
    assert isinstance(refused, ChildRefused)
    assert refused.error.code == "RUN_ALREADY_STARTED"
    assert await runs(port) == 1


async def test_a_key_that_is_taken_while_its_child_starts_leads_to_that_child(
    driver: Driver, port: PostgresPort, database: Database, parent: UUID
) -> None:
    """The parent is cancelled in the middle of the start: the child ends cancelled."""
    rival = await database.connect("coordinator")
    asked = await wanted(driver, port, parent)
    timer_id = await start_timer(port)
    with arm("store.commit_starts", "before", pause := Pause()):
        starting = asyncio.create_task(start(port, rival, asked))
        await pause.reached.wait()
        await driver.submit(parent, CancelRun())
        assert isinstance(await driver.submit(parent, FireTimer(timer_id)), ChildUnwanted)
        forgoing = asyncio.create_task(
            forgo_child(port.coordinator, ORG, asked.start_key, retention=RETENTION)
        )
        await wait_until_blocked(rival)
        pause.release.set()
        found = await forgoing
        assert found == await starting
    assert isinstance(found, ChildStarted)
    await driver.submit(parent, TellOfChild(timer_id, found))
    await driver.settle()
    assert (await port.run(found.run_id)).status is RunStatus.CANCELLED


async def test_a_callers_start_with_the_key_of_a_child_that_is_not_to_be_is_refused(
    driver: Driver, port: PostgresPort, parent: UUID
) -> None:
    asked = await wanted(driver, port, parent)
    await forgo_child(port.coordinator, ORG, asked.start_key, retention=RETENTION)
    with pytest.raises(AlreadyExists):
        await driver.start(start_key=asked.start_key)
