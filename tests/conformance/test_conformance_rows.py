"""The rows of a `for_each`: given to expressions, and to another `for_each`; on both engines."""

import json
from typing import Any

import pytest
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

ITEM = {"task": {"handler": "x", "input": "${item}"}}


def fan(list_: str, nodes: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"for_each": {"in": list_, "nodes": nodes, "failures": {"max": 9}, **members}}


async def test_an_expression_reads_the_rows_in_the_order_of_their_items(driver: Driver) -> None:
    good = "nodes.batch.output.rows.filter(r, r.status == 'completed').map(r, r.output)"
    await driver.publish(
        {
            "batch": fan("${input.list}", {"work": ITEM}, output="${nodes.work.output}"),
            "sum": {"needs": ["batch"], "transform": {"good": f"${{{good}}}"}},
            "all": {"needs": ["batch"], "transform": "${nodes.batch.output.rows}"},
        },
        output={"sum": "${nodes.sum.output.good}", "all": "${nodes.all.output}"},
    )
    run = await driver.start(b'{"list": [1, 2, 3]}')
    await driver.succeed(await driver.acquire(run, "batch[2].work"), b"30")
    await driver.fail(await driver.acquire(run, "batch[1].work"), ErrorClass.PERMANENT)
    await driver.succeed(await driver.acquire(run, "batch[0].work"), b"1e1")
    state = await driver.engine.run(run)
    assert state.output is not None
    told = json.loads(state.output)
    assert told["sum"] == [10, 30]
    assert [(row["index"], row["status"]) for row in told["all"]] == [
        (0, "completed"), (1, "failed"), (2, "completed"),
    ]  # fmt: skip
    assert told["all"][1]["error"]["code"] == "BROKEN"
    assert b'"output":1e1' in state.output


async def test_result_shapes_a_for_each_by_its_rows(driver: Driver) -> None:
    shaped = "${nodes.batch.output.rows.map(r, r.output)}"
    node = fan(
        "${input.list}", {"work": {"transform": "${item + 1}"}}, output="${nodes.work.output}"
    )
    await driver.publish({"batch": {**node, "result": shaped}})
    run = await driver.start(b'{"list": [1, 2]}')
    assert (await driver.engine.run(run)).output == b'{"batch":[2,3]}'


async def test_an_empty_list_has_no_rows(driver: Driver) -> None:
    node = fan("${input.list}", {"work": ITEM})
    await driver.publish({"batch": {**node, "result": "${nodes.batch.output.rows}"}})
    run = await driver.start(b'{"list": []}')
    assert (await driver.engine.run(run)).output == b'{"batch":[]}'


async def test_more_rows_than_an_expression_is_given_fail_by_a_name(driver: Driver) -> None:
    node = fan("${input.list}", {"work": {"transform": 1}})
    await driver.publish({"batch": {**node, "result": "${size(nodes.batch.output.rows)}"}})
    run = await driver.start(json.dumps({"list": list(range(1001))}).encode())
    await driver.settle()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert state.error.code == "TOO_MANY_ROWS"


async def test_a_for_each_goes_over_the_rows_of_another_however_many(driver: Driver) -> None:
    first = fan(
        "${input.list}", {"work": {"transform": "${item + 1}"}}, output="${nodes.work.output}"
    )
    second = fan("${nodes.first.output}", {"again": {"transform": "${item.output}"}}, batch=1)
    await driver.publish({"first": first, "second": {**second, "needs": ["first"]}})
    run = await driver.start(json.dumps({"list": list(range(600))}).encode())
    await driver.settle()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.COMPLETED
    assert state.output is not None
    assert json.loads(state.output)["second"]["count"] == 600
    last = await driver.step(run, "second[599].again")
    assert last.output == b"600"
