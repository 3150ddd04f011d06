"""Migrations of runs in which sub-graphs have begun, on both engines (R11)."""

from typing import Any

import pytest
from perdure_machine.migration import OnRemoved
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
BLOCKED = {"group": {"nodes": {"inner": TASK}}}


async def test_scopes_go_on_where_the_inside_has_the_same_nodes(driver: Driver) -> None:
    old = {"g": {"for_each": {"in": [1, 2], "concurrency": 1, "nodes": {"x": TASK}}}}
    more = {"task": {"handler": "other", "input": "${item}"}}
    new = {
        "g": {"for_each": {"in": [1, 2], "concurrency": 1, "nodes": {"x": more}}},
        "after": {**TASK, "needs": ["g"]},
    }
    await driver.publish(old)
    run = await driver.start()
    await driver.publish(new)
    granted = await driver.acquire(run, "g[0].x")
    await driver.migrate()
    await driver.settle()
    await driver.succeed(granted)
    second = await driver.acquire(run, "g[1].x")
    assert (second.handler, second.step.input) == ("other", b"2")
    await driver.succeed(second)
    await driver.drain()
    assert (await driver.statuses(run))["after"] == "completed"
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("new", "nodes", "expected"),
    [
        ({"g": {"group": {"nodes": {"inner": TASK, "more": TASK}}}}, {}, ("BLOCK_CHANGED", "g")),
        ({"h": {"group": {"nodes": {"inner": TASK}}}}, {"g": "h"}, ("BLOCK_RENAMED", "g")),
        ({"other": TASK}, {}, ("NODE_REMOVED", "g")),
        ({"o": {"group": {"nodes": {"g": BLOCKED}}}}, {}, ("NODE_MOVED", "g")),
    ],
)
async def test_a_sub_graph_that_has_begun_keeps_its_shape_and_its_place(
    driver: Driver, new: dict[str, Any], nodes: dict[str, str], expected: tuple[str, str]
) -> None:
    await driver.publish({"g": BLOCKED})
    await driver.start()
    await driver.publish(new)
    found = await driver.migrate(nodes=nodes, dry_run=True, on_removed=OnRemoved.CANCEL)
    assert found == [expected]
    await driver.drain()


async def test_a_sub_graph_that_has_not_begun_may_change_and_be_renamed(driver: Driver) -> None:
    await driver.publish({"a": TASK, "g": {**BLOCKED, "needs": ["a"]}})
    run = await driver.start()
    inside = {"group": {"nodes": {"inner": TASK, "more": TASK}}}
    await driver.publish({"a": TASK, "h": {**inside, "needs": ["a"]}})
    assert await driver.migrate(nodes={"g": "h"}) == []
    await driver.settle()
    await driver.drain()
    assert (await driver.statuses(run))["h[0].more"] == "completed"
