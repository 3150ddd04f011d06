"""Connections at the same moment from two coordinators; made certain by locks."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import pytest
from perdure_machine.capacity import Tried
from perdure_machine.events import Acquire, Event
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Blocked, Granted
from perdure_machine.states import StepStatus
from perdure_runtime.errors import PerdureError
from perdure_runtime.fail_points import Pause, arm
from perdure_store import connections
from perdure_store.apply.batch import Answers, OrgEvent, RunEvents, Skipped
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import (
    ORG,
    Driver,
    failure,
    new_lease,
    offer_of,
    success,
)
from perdure_testkit.engines.port import Bears
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

EVENTS, CONNECTIONS = "store.commit_events", "store.commit_connections"
SEND = {"task": {"handler": "x"}, "connection": "crm"}
NODES: dict[str, object] = {"send": SEND}


async def apply(
    port: PostgresPort,
    connection: asyncpg.Connection,
    *events: tuple[UUID, Event],
    wait: bool = True,
) -> list[Answers | Skipped]:
    batch = [RunEvents(run, (OrgEvent(ORG, event),)) for run, event in events]
    return await port.applier.apply(connection, batch, wait=wait)


def wish(*, hinted: bool = True) -> Acquire:
    return Acquire(1, new_lease(), "worker", capacity=hinted)


async def granted(driver: Driver, run: UUID) -> Granted:
    reply = await driver.submit(run, wish())
    assert isinstance(reply, Granted)
    return reply


def kinds(outcomes: Sequence[Answers | Skipped]) -> list[type]:
    return [type(one[0]) if not isinstance(one, Skipped) else Skipped for one in outcomes]


async def test_protocol_p8_a_repair_that_comes_after_parking_finds_the_step(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await port.put_connection(ORG, "crm", Bears())
    await driver.publish(NODES)
    run = await driver.start()
    one = await granted(driver, run)
    parking, repairing = [await database.connect("coordinator") for _ in range(2)]
    refused = failure(one, ErrorClass.AUTHORISATION)
    with arm(EVENTS, "before", pause := Pause()):
        report = asyncio.create_task(apply(port, parking, (run, refused)))
        await pause.reached.wait()
        repair = asyncio.create_task(
            connections.repair_connection(repairing, ORG, "crm", actor="ada")
        )
        await wait_until_blocked(parking)
        pause.release.set()
        await report
        await repair
    assert (await driver.step(run, "send")).status is StepStatus.PARKED
    await driver.settle()
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED
    assert not await port.no_way_forward()


async def test_protocol_p8_parking_that_comes_after_a_repair_finds_it(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await port.put_connection(ORG, "crm", Bears())
    await driver.publish(NODES)
    run = await driver.start()
    one = await granted(driver, run)
    parking, repairing = [await database.connect("coordinator") for _ in range(2)]
    refused = failure(one, ErrorClass.AUTHORISATION, generation=1)
    with arm(CONNECTIONS, "before", pause := Pause()):
        repair = asyncio.create_task(
            connections.repair_connection(repairing, ORG, "crm", actor="ada")
        )
        await pause.reached.wait()
        report = asyncio.create_task(apply(port, parking, (run, refused)))
        await wait_until_blocked(repairing)
        pause.release.set()
        await repair
        await report
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED
    assert not await port.no_way_forward()


@pytest.mark.parametrize("hinted", [True, False])
async def test_a_limit_of_five_never_sees_six_with_two_coordinators(
    driver: Driver, port: PostgresPort, database: Database, hinted: bool
) -> None:
    await port.put_connection(ORG, "crm", Bears(slots=5))
    await driver.publish(NODES)
    runs = [await driver.start() for _ in range(24)]
    coordinators = [await database.connect("coordinator") for _ in range(2)]
    most, left = 0, set(runs)

    async def work(mine: Sequence[UUID], connection: asyncpg.Connection) -> None:
        for _ in range(50):
            todo = [run for run in mine if run in left]
            if not todo:
                return
            asks = [(run, wish(hinted=hinted)) for run in todo[:8]]
            outcomes = await apply(port, connection, *asks, wait=False)
            got = [one[0] for one in outcomes if not isinstance(one, Skipped)]
            nonlocal most
            most = max(most, await connection.fetchval(RUNNING))
            for reply in got:
                if isinstance(reply, Granted):
                    run = reply.run.run_id
                    await apply(port, connection, (run, success(reply)))
                    left.discard(run)

    await asyncio.gather(work(runs[::2], coordinators[0]), work(runs[1::2], coordinators[1]))
    assert not left
    assert most <= 5
    assert await port.in_use(ORG, "crm") == 0


RUNNING = "SELECT count(*) FROM steps WHERE status = 'running'"


async def test_places_that_another_coordinator_has_locked_are_not_given_twice(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await port.put_connection(ORG, "crm", Bears(slots=5))
    await driver.publish(NODES)
    runs = [await driver.start() for _ in range(4)]
    other = await database.connect()
    async with other.transaction():
        await other.execute("SELECT FROM connection_slots WHERE slot <= 3 FOR UPDATE")
        outcomes = await apply(port, port.coordinator, *((run, wish()) for run in runs))
    assert (kinds(outcomes).count(Granted), kinds(outcomes).count(Blocked)) == (2, 2)
    assert await port.in_use(ORG, "crm") == 2


async def test_a_rate_is_exact_with_two_coordinators(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await port.put_connection(ORG, "crm", Bears(rate=0.001, burst=5.0))
    await driver.publish(NODES)
    runs = [await driver.start() for _ in range(12)]
    first, second = [await database.connect("coordinator") for _ in range(2)]
    with arm(EVENTS, "before", pause := Pause()):
        earlier = asyncio.create_task(apply(port, first, *((run, wish()) for run in runs[:3])))
        await pause.reached.wait()
        later = asyncio.create_task(apply(port, second, *((run, wish()) for run in runs[3:])))
        await wait_until_blocked(first)
        pause.release.set()
        outcomes = [*await earlier, *await later]
    assert kinds(outcomes).count(Granted) == 5


async def test_of_two_coordinators_one_probes_a_half_open_breaker(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await port.put_connection(ORG, "crm", Bears(failures=1, open_for=60.0))
    await driver.publish(NODES)
    runs = [await driver.start() for _ in range(2)]
    await port.tell(ORG, Tried("crm", ErrorClass.RETRYABLE))
    await port.advance(61.0)
    first, second = [await database.connect("coordinator") for _ in range(2)]
    with arm(EVENTS, "before", pause := Pause()):
        earlier = asyncio.create_task(apply(port, first, (runs[0], wish())))
        await pause.reached.wait()
        later = asyncio.create_task(apply(port, second, (runs[1], wish())))
        await wait_until_blocked(first)
        pause.release.set()
        assert kinds([*await earlier, *await later]) == [Granted, Blocked]


async def test_p4_a_run_that_is_held_elsewhere_keeps_no_place(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await port.put_connection(ORG, "crm", Bears(slots=1))
    await driver.publish(NODES)
    held, other = await driver.start(), await driver.start()
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute("SELECT FROM runs WHERE run_id = $1 FOR UPDATE", held)
        skipped = await apply(port, port.coordinator, (held, wish()), wait=False)
        assert skipped == [Skipped()]
        assert kinds(await apply(port, port.coordinator, (other, wish()))) == [Granted]


async def test_r14_a_chained_step_waits_for_nothing_at_its_connection(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """Else who holds the connection and waits for this run would wait for ever."""
    await port.put_connection(ORG, "crm", Bears(rate=1.0, burst=5.0))
    await driver.publish(
        {"first": {"task": {"handler": "x"}}, "send": {**SEND, "needs": ["first"]}}
    )
    run = await driver.start()
    first = await driver.acquire(run, "first")
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute("SELECT FROM connections FOR UPDATE")
        reply = await driver.succeed(first, offer=offer_of(f"io:{ORG}"))
    assert reply == Applied()
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED


async def test_a_sweep_gives_back_places_that_no_lease_holds_and_no_other(
    driver: Driver, port: PostgresPort
) -> None:
    await port.put_connection(ORG, "crm", Bears(slots=2))
    await driver.publish(NODES)
    living, run = await driver.start(), await driver.start()
    await granted(driver, living)
    lost = await granted(driver, run)
    await port.admin.execute(
        "UPDATE connection_slots SET lease_id = $1 WHERE run_id = $2", new_lease(), run
    )
    assert await connections.needs_mending(port.coordinator)
    assert await connections.free_leaked(port.coordinator, limit=10) == 1
    assert await port.in_use(ORG, "crm") == 1
    assert not await connections.needs_mending(port.coordinator)
    await driver.succeed(lost)


async def test_a_place_that_was_given_on_since_the_sweep_looked_is_left_alone(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await port.put_connection(ORG, "crm", Bears(slots=1))
    await driver.publish(NODES)
    one, two = await driver.start(), await driver.start()
    old = await granted(driver, one)
    giving, sweeping = await database.connect("coordinator"), await database.connect("coordinator")
    with arm(EVENTS, "before", pause := Pause()):
        report = asyncio.create_task(apply(port, giving, (one, success(old))))
        await pause.reached.wait()
        assert await connections.free_leaked(sweeping, limit=10) == 0
        pause.release.set()
        await report
    assert kinds(await apply(port, giving, (two, wish()))) == [Granted]
    assert await connections.free_leaked(sweeping, limit=10) == 0
    assert await port.in_use(ORG, "crm") == 1


async def test_p5_a_repair_brings_back_the_steps_of_many_runs_in_parts(
    driver: Driver, port: PostgresPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure_store.causes.MAX_RUNS_AT_ONCE", 2)
    await driver.publish(NODES)
    runs = [await driver.start() for _ in range(5)]
    for run in runs:
        await driver.submit(run, wish())
    await port.put_connection(ORG, "crm", Bears())
    assert len(await port.timers()) == 1
    assert not await port.no_way_forward()
    await driver.settle()
    assert {(await driver.step(run, "send")).status for run in runs} == {StepStatus.QUEUED}


async def test_steps_that_a_lost_event_left_parked_are_found_by_the_sweep(
    driver: Driver, port: PostgresPort
) -> None:
    await port.put_connection(ORG, "crm", Bears())
    await driver.publish(NODES)
    run = await driver.start()
    await driver.fail(await granted(driver, run), ErrorClass.AUTHORISATION)
    await port.repair_connection(ORG, "crm")
    await port.admin.execute("DELETE FROM timers")
    assert len(await port.no_way_forward()) == 1
    assert await connections.needs_mending(port.coordinator)
    await port.mend()
    await driver.settle()
    assert (await driver.step(run, "send")).status is StepStatus.QUEUED


async def test_a_run_of_another_org_takes_no_place(driver: Driver, port: PostgresPort) -> None:
    await port.put_connection(ORG, "crm", Bears(slots=1))
    await driver.publish(NODES)
    run = await driver.start()
    batch = [RunEvents(run, (OrgEvent("somebody", wish()),))]
    ((answer,),) = await port.applier.apply(port.coordinator, batch, wait=True)  # type: ignore[misc]
    assert isinstance(answer, PerdureError)
    assert await port.in_use(ORG, "crm") == 0
