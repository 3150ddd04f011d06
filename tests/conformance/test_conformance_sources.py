"""A `for_each` whose items come page by page, on both engines."""

import json
from typing import Any
from uuid import UUID

import pytest
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = "batch@[{}].batch@page"
WORK = {"work": {"task": {"handler": "x", "input": "${item}"}}}


async def publish(driver: Driver, **members: Any) -> None:
    body = {"source": {"handler": "crm.page"}, "nodes": WORK, **members}
    await driver.publish({"batch": {"for_each": body}})


async def answer(driver: Driver, run: UUID, page: int, items: Any, cursor: Any = None) -> bytes:
    """Answer a page, and return what the source was given."""
    granted = await driver.acquire(run, PAGE.format(page))
    await driver.succeed(granted, json.dumps({"items": items, "next": cursor}).encode())
    assert granted.step.input is not None
    return granted.step.input


async def code(driver: Driver, run: UUID) -> str:
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    return state.error.code


async def test_items_of_a_page_run_while_the_next_is_asked_for(driver: Driver) -> None:
    await publish(driver)
    run = await driver.start()
    assert await answer(driver, run, 0, [1, 2], {"at": 18446744073709551616}) == b'{"cursor":null}'
    await driver.succeed(await driver.acquire(run, "batch[0].work"))
    await driver.succeed(await driver.acquire(run, "batch[1].work"))
    assert (await driver.statuses(run))["batch"] == "waiting"
    given = await answer(driver, run, 1, ["last"])
    assert given == b'{"cursor":{"at": 18446744073709551616}}'
    await driver.succeed(await driver.acquire(run, "batch[2].work"))
    state = await driver.engine.run(run)
    assert json.loads(state.output or b"")["batch"]["count"] == 3


async def test_a_page_that_ends_the_node_is_no_row_of_it(driver: Driver) -> None:
    rows = "${nodes.batch.output.rows.map(row, row.output)}"
    body = {"source": {"handler": "crm.page"}, "nodes": WORK, "output": "${nodes.work.output}"}
    await driver.publish({"batch": {"for_each": body, "result": rows}})
    run = await driver.start()
    await answer(driver, run, 0, [1, 2], "more")
    for item in range(2):
        await driver.succeed(await driver.acquire(run, f"batch[{item}].work"), b"7")
    await answer(driver, run, 1, [])
    assert (await driver.engine.run(run)).output == b'{"batch":[7,7]}'


async def test_a_source_without_items_ends_the_node_at_once(driver: Driver) -> None:
    await publish(driver)
    run = await driver.start()
    await answer(driver, run, 0, [])
    state = await driver.engine.run(run)
    assert json.loads(state.output or b"")["batch"]["count"] == 0


async def test_a_source_that_fails_stops_the_items_and_fails_the_node(driver: Driver) -> None:
    await publish(driver)
    run = await driver.start()
    await answer(driver, run, 0, [1], "more")
    await driver.fail(await driver.acquire(run, PAGE.format(1)), ErrorClass.PERMANENT)
    assert (await driver.statuses(run))["batch[0].work"] == "cancelled"
    assert await code(driver, run) == "BROKEN"


@pytest.mark.parametrize("items", [None, {"a": 1}, list(range(1001))])
async def test_a_source_whose_answer_is_no_page_fails_the_node(driver: Driver, items: Any) -> None:
    await publish(driver)
    run = await driver.start()
    await answer(driver, run, 0, items)
    assert await code(driver, run) == "SOURCE_INVALID"


async def test_one_item_too_many_that_fails_stops_the_source_too(driver: Driver) -> None:
    await publish(driver)
    run = await driver.start()
    await answer(driver, run, 0, [1], "more")
    await driver.fail(await driver.acquire(run, "batch[0].work"), ErrorClass.PERMANENT)
    assert (await driver.statuses(run))[PAGE.format(1)] == "cancelled"
    assert await code(driver, run) == "ITEMS_FAILED"


async def test_a_percentage_counts_once_the_last_page_has_told_of_all(driver: Driver) -> None:
    await publish(driver, failures={"max_percent": 40})
    run = await driver.start()
    await answer(driver, run, 0, [1], "more")
    await driver.fail(await driver.acquire(run, "batch[0].work"), ErrorClass.PERMANENT)
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    await answer(driver, run, 1, [2])
    assert "batch[1].work" not in await driver.statuses(run)
    assert await code(driver, run) == "ITEMS_FAILED"


async def test_a_source_reads_what_its_node_needs(driver: Driver) -> None:
    source = {"handler": "crm.page", "input": {"of": "${nodes.a.output}", "at": "${cursor}"}}
    batch = {"for_each": {"source": source, "nodes": WORK}, "needs": ["a"]}
    await driver.publish({"a": {"task": {"handler": "x"}}, "batch": batch})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), b"7")
    assert await answer(driver, run, 0, []) == b'{"of":7,"at":null}'
