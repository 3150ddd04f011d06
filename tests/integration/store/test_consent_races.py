"""A hand-out and a suppression of its subject: each order made certain by their locks."""

import asyncio
from uuid import UUID

from perdure_machine.events import Acquire
from perdure_machine.replies import Gone, Granted, Reply
from perdure_machine.states import StepStatus
from perdure_runtime.errors import PerdureError
from perdure_runtime.fail_points import Pause, arm
from perdure_store.apply.batch import OrgEvent, RunEvents, Skipped
from perdure_store.apply.starter import StartAnswer
from perdure_store.suppressions import add_suppression
from perdure_testkit.database import Database
from perdure_testkit.engines.asking import start_request
from perdure_testkit.engines.driver import ORG, Driver, new_lease
from perdure_testkit.engines.port import StartOf
from perdure_testkit.engines.postgres import SUBJECT_KEY, PostgresPort, suppression
from perdure_testkit.waiting import wait_until_blocked

SEND = {"send": {"task": {"handler": "h"}, "subject": "${input.to}", "purpose": "marketing"}}
TO_ADA = b'{"to":"ada@example.org"}'
ADA = "ada@example.org"


async def hand_out(port: PostgresPort, run: UUID) -> Reply | PerdureError:
    event = OrgEvent(ORG, Acquire(1, new_lease(), "worker"))
    (answers,) = await port.applier.apply(port.coordinator, [RunEvents(run, (event,))], wait=True)
    assert not isinstance(answers, Skipped)
    return answers[0]


async def test_p1_a_suppression_waits_for_a_hand_out_that_did_not_see_it(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """Once the suppression has returned, nothing that began before it is unknown to anybody."""
    await driver.publish(SEND)
    run = await driver.start(TO_ADA)
    other = await database.connect("coordinator")
    with arm("store.commit_events", "before", pause := Pause()):
        handing = asyncio.create_task(hand_out(port, run))
        await pause.reached.wait()
        adding = asyncio.create_task(add_suppression(other, suppression(ORG, ADA)))
        await wait_until_blocked(port.coordinator)
        assert not adding.done()
        pause.release.set()
        reply = await handing
        assert await adding
    assert isinstance(reply, Granted)


async def test_p1_a_hand_out_waits_for_a_suppression_and_then_sees_it(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(SEND)
    run = await driver.start(TO_ADA)
    other = await database.connect("coordinator")
    with arm("store.commit_suppression", "before", pause := Pause()):
        adding = asyncio.create_task(add_suppression(other, suppression(ORG, ADA, "marketing")))
        await pause.reached.wait()
        handing = asyncio.create_task(hand_out(port, run))
        await wait_until_blocked(other)
        pause.release.set()
        assert await adding
        reply = await handing
    assert reply == Gone()
    assert (await driver.step(run, "send")).status is StepStatus.FAILED


async def test_hand_outs_about_one_subject_do_not_wait_for_each_other(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(SEND)
    run = await driver.start(TO_ADA)
    rival = await database.connect("coordinator")
    async with rival.transaction():
        shared = "SELECT pg_advisory_xact_lock_shared(subject_lock($1))"
        await rival.execute(shared, SUBJECT_KEY.hash(ORG, ADA))
        reply = await asyncio.wait_for(hand_out(port, run), timeout=10)
    assert isinstance(reply, Granted)


async def test_a_subject_stands_in_no_table_of_subjects_and_lists(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(SEND)
    await driver.start(TO_ADA)
    assert await add_suppression(port.coordinator, suppression(ORG, ADA))
    assert not await add_suppression(port.coordinator, suppression(ORG, ADA))
    for table in ("run_subjects", "suppressions", "audit_log"):
        rows = await port.admin.fetch(f"SELECT * FROM {table}")
        assert rows
        assert ADA not in str([tuple(row) for row in rows]).lower()


async def test_a_run_without_subjects_asks_nothing_about_them(
    driver: Driver, port: PostgresPort
) -> None:
    port.remember(0)
    await driver.publish({"a": {"task": {"handler": "h"}}})
    run = await driver.start()
    asked: list[str] = []

    def note(record: object) -> None:
        asked.append(str(getattr(record, "query", "")))

    port.coordinator.add_query_logger(note)
    try:
        await driver.acquire(run, "a")
    finally:
        port.coordinator.remove_query_logger(note)
    assert asked
    assert not [query for query in asked if "subject" in query]


async def test_p1_an_erasure_waits_for_a_start_that_it_would_miss(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(SEND, subject="${input.to}")
    request = start_request(ORG, StartOf(driver.workflow, TO_ADA))
    other = await PostgresPort.open(database)
    with arm("store.commit_starts", "before", pause := Pause()):
        starting = asyncio.create_task(port.starter.start(port.coordinator, [request]))
        await pause.reached.wait()
        erasing = asyncio.create_task(other.erase(ORG, ADA))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        (started,) = await starting
        await erasing
    await driver.settle()
    assert isinstance(started, StartAnswer)
    assert (await port.run(started.run_id)).erased
