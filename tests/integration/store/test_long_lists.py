"""A `for_each` costs each event the same, however long its list is (design section 4)."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from perdure_machine.events import FireTimer
from perdure_machine.states import RunStatus
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.postgres import PostgresPort

LONG = 100_000


async def driver_on(database: Database, node: dict[str, Any], **members: Any) -> Driver:
    driver = Driver(await PostgresPort.open(database, orgs=[ORG]))
    body = {"in": "${input.list}", "concurrency": 3, "nodes": {"work": node}}
    await driver.publish({"batch": {"for_each": body}}, **members)
    return driver


async def statements_of_an_item(driver: Driver, items: int) -> list[str]:
    """Return the statements that the end of one item of a list takes, the begin of its next too."""
    run = await driver.start(json.dumps({"list": list(range(items))}).encode())
    await driver.settle()
    granted = await driver.acquire(run, "batch[1].work")
    sent: list[str] = []
    connection = driver.engine.coordinator  # type: ignore[attr-defined]
    with connection.query_logger(lambda record: sent.append(record.query.split("\n")[0])):
        await driver.succeed(granted)
    assert (await driver.statuses(run))["batch[3].work"] == "queued"
    return sent


async def test_the_cost_of_an_item_does_not_grow_with_the_list(database: Database) -> None:
    driver = await driver_on(database, {"task": {"handler": "x", "input": "${item}"}})
    few = await statements_of_an_item(driver, 10)
    assert await statements_of_an_item(driver, 2_000) == few


@pytest.mark.long
async def test_a_hundred_thousand_items_run_to_their_end(database: Database) -> None:
    driver = await driver_on(database, {"transform": 1}, limits={"steps": LONG + 1})
    run = await driver.start(json.dumps({"list": [0] * LONG}).encode())
    await play(driver, run)
    state = await driver.engine.run(run)
    assert state.status is RunStatus.COMPLETED
    assert json.loads(state.output or b"")["batch"]["count"] == LONG


async def play(driver: Driver, run: UUID) -> None:
    """Deliver internal events until the run has ended."""
    while (await driver.engine.run(run)).status is RunStatus.RUNNING:
        for timer in await driver.engine.timers():
            await driver.submit(run, FireTimer(timer.timer_id))
