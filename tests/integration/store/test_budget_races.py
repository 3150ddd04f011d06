"""Money that two want at once, and a budget that is raised just then: made certain by locks."""

from __future__ import annotations

import asyncio
from uuid import UUID

import asyncpg
from perdure_machine.budgets import Period
from perdure_machine.events import Acquire
from perdure_machine.replies import Gone, Granted, Reply
from perdure_machine.states import StepStatus
from perdure_runtime.errors import PerdureError
from perdure_runtime.fail_points import Pause, arm
from perdure_store.apply.batch import OrgEvent, RunEvents, Skipped
from perdure_store.budgets import BudgetAsked, list_budgets, put_budget
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver, new_lease, success
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

ASK = {"a": {"task": {"handler": "h"}, "cost": 1}}
ONE = 1_000_000
AGO = """
UPDATE budget_charges SET charged_at = charged_at - interval '40 days';
UPDATE budgets SET since = since - interval '40 days'
"""


async def hand_out(port: PostgresPort, *runs: UUID) -> list[Reply | PerdureError]:
    """Ask for the first step of runs in one batch, as a coordinator does for workers."""
    batch = [
        RunEvents(run, (OrgEvent(ORG, Acquire(1, new_lease(), "worker")),)) for run in sorted(runs)
    ]
    found = await port.applier.apply(port.coordinator, batch, wait=True)
    return [answers[0] for answers in found if not isinstance(answers, Skipped)]


async def raise_to(connection: asyncpg.Connection, micros: int) -> None:
    await put_budget(connection, BudgetAsked(ORG, "all", "", micros, Period.TOTAL, "", "test"))


async def test_p1_two_coordinators_do_not_set_the_same_money_aside(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(ASK)
    await port.put_budget(ORG, "all", ONE)
    first, second = await driver.start(), await driver.start()
    other = await PostgresPort.open(database)
    with arm("store.commit_events", "before", pause := Pause()):
        one = asyncio.create_task(hand_out(port, first))
        await pause.reached.wait()
        two = asyncio.create_task(hand_out(other, second))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        (granted,), (refused,) = await one, await two
    assert isinstance(granted, Granted)
    assert refused == Gone()
    assert (await driver.step(second, "a")).status is StepStatus.PARKED
    assert await port.budget_left(ORG, "all") == 0


async def test_r14_runs_of_one_batch_share_what_is_left(driver: Driver, port: PostgresPort) -> None:
    await driver.publish(ASK)
    await port.put_budget(ORG, "all", 2 * ONE)
    runs = [await driver.start() for _ in range(4)]
    replies = await hand_out(port, *runs)
    assert sum(isinstance(one, Granted) for one in replies) == 2
    assert await port.budget_left(ORG, "all") == 0


async def test_protocol_p8_a_raise_waits_for_who_parks_and_brings_it_back(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(ASK)
    await port.put_budget(ORG, "all", 0)
    run = await driver.start()
    operator = await database.connect("coordinator")
    with arm("store.commit_events", "before", pause := Pause()):
        parking = asyncio.create_task(hand_out(port, run))
        await pause.reached.wait()
        raising = asyncio.create_task(raise_to(operator, ONE))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        await parking
        await raising
    assert (await driver.step(run, "a")).status is StepStatus.PARKED
    await driver.settle()
    assert (await driver.step(run, "a")).status is StepStatus.QUEUED
    await driver.acquire(run, "a")


async def test_protocol_p8_who_comes_after_a_raise_finds_what_was_raised(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(ASK)
    await port.put_budget(ORG, "all", 0)
    run = await driver.start()
    operator = await database.connect("coordinator")
    with arm("store.commit_budget", "before", pause := Pause()):
        raising = asyncio.create_task(raise_to(operator, ONE))
        await pause.reached.wait()
        asking = asyncio.create_task(hand_out(port, run))
        await wait_until_blocked(operator)
        pause.release.set()
        await raising
        (reply,) = await asking
    assert isinstance(reply, Granted)


async def test_r14_a_report_settles_while_somebody_holds_the_budget(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """What a try came to is written on a row of its own, so who reports waits for no budget."""
    await driver.publish(ASK)
    await port.put_budget(ORG, "all", 2 * ONE)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    rival = await database.connect("coordinator")
    async with rival.transaction():
        await rival.execute("SELECT FROM budgets WHERE name = 'all' FOR UPDATE")
        await asyncio.wait_for(driver.submit(run, success(granted)), timeout=10)
    assert await port.budget_left(ORG, "all") == ONE


async def test_a_new_period_has_its_whole_amount_and_brings_back_what_was_parked(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(ASK)
    await port.put_budget(ORG, "all", ONE, Period.MONTH)
    first, second = await driver.start(), await driver.start()
    await driver.succeed(await driver.acquire(first, "a"))
    await hand_out(port, second)
    assert (await driver.step(second, "a")).status is StepStatus.PARKED
    for statement in AGO.split(";"):
        await port.admin.execute(statement)
    assert await port.budget_left(ORG, "all") == ONE
    (timer,) = [one for one in await port.timers() if one.kind == "new_period"]
    assert timer.remaining > 0
    await driver.engine.advance(timer.remaining + 1)
    await driver.settle()
    assert (await driver.step(second, "a")).status is StepStatus.QUEUED
    await driver.succeed(await driver.acquire(second, "a"))
    (budget,) = await list_budgets(port.admin, ORG, "all")
    assert (budget.spent, budget.reserved, budget.parked) == (ONE, 0, 0)


async def test_what_nothing_settles_because_its_node_costs_nothing_any_more_is_added(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(ASK)
    await port.put_budget(ORG, "all", 10 * ONE)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.publish({"a": {"task": {"handler": "h"}}})
    assert not await driver.migrate()
    await driver.settle()
    await driver.succeed(granted)
    await driver.acquire(await driver.start(version=1), "a")
    (budget,) = await list_budgets(port.admin, ORG, "all")
    assert (budget.spent, budget.reserved) == (ONE, ONE)


async def test_steps_without_a_cost_ask_nothing_about_money(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish({"a": {"task": {"handler": "h"}}})
    await port.put_budget(ORG, "all", 0)
    run = await driver.start()
    asked: list[str] = []

    def note(record: object) -> None:
        asked.append(str(getattr(record, "query", "")))

    port.coordinator.add_query_logger(note)
    try:
        await driver.succeed(await driver.acquire(run, "a"))
    finally:
        port.coordinator.remove_query_logger(note)
    assert asked
    assert not [query for query in asked if "budget" in query or "spending" in query]
