"""Joins: every row of the language's table, on runs whose needs end in every way."""

import json
from collections.abc import Sequence

import pytest
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver, failure, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

Nodes = dict[str, object]

TASK: Nodes = {"task": {"handler": "x"}}
NEEDS: dict[str, Nodes] = {
    "well": TASK,
    "caught": {**TASK, "on_failure": [{"output": "instead"}]},
    "skipped": {**TASK, "when": "false"},
    "failed": TASK,
    "cancelled": {**TASK, "needs": ["failing"]},
}


def joining(join: object, needs: Sequence[str], **more: object) -> Nodes:
    """Return nodes that end in the given ways, and a node `j` that joins them."""
    nodes: Nodes = {f"n{i}": NEEDS[kind] for i, kind in enumerate(needs)}
    if "cancelled" in needs:
        nodes["failing"] = TASK
    return {**nodes, "j": {**TASK, "needs": [f"n{i}" for i in range(len(needs))], "join": join}}


async def end(driver: Driver, run: object, node: str, kind: str) -> None:
    """Let a task end as `kind` says."""
    granted = await driver.acquire(run, node)  # type: ignore[arg-type]
    if kind == "well":
        await driver.succeed(granted, json.dumps(node).encode())
    else:
        await driver.fail(granted, ErrorClass.PERMANENT)


ROWS: list[tuple[object, list[str], str]] = [
    ("all", ["well", "well"], "queued"),
    ("all", ["well", "caught"], "queued"),
    ("all", ["skipped", "well"], "queued"),
    ("all", ["skipped", "skipped"], "skipped"),
    ("all", ["well", "failed"], "cancelled"),
    ("all", ["well", "cancelled"], "cancelled"),
    ("all", ["failed", "skipped"], "cancelled"),
    ("strict", ["well", "caught"], "queued"),
    ("strict", ["well", "skipped"], "skipped"),
    ("strict", ["skipped", "skipped"], "skipped"),
    ("strict", ["well", "failed"], "cancelled"),
    ("strict", ["skipped", "failed"], "cancelled"),
    ("any", ["well", "well"], "queued"),
    ("any", ["failed", "well"], "queued"),
    ("any", ["skipped", "well"], "queued"),
    ("any", ["failed", "caught"], "queued"),
    ("any", ["skipped", "skipped"], "skipped"),
    ("any", ["failed", "skipped"], "skipped"),
    ("any", ["failed", "cancelled"], "skipped"),
    ({"quorum": 2}, ["well", "failed", "well"], "queued"),
    ({"quorum": 2}, ["well", "caught", "skipped"], "queued"),
    ({"quorum": 2}, ["failed", "well", "skipped"], "skipped"),
    ({"quorum": "${1 + 1}"}, ["well", "failed", "well"], "queued"),
    ({"quorum": "${1 + 2}"}, ["well", "skipped", "well"], "skipped"),
    ({"quorum": 1}, ["cancelled", "well"], "queued"),
    ("settled", ["well", "failed"], "queued"),
    ("settled", ["skipped", "skipped"], "queued"),
    ("settled", ["failed", "cancelled"], "queued"),
]


@pytest.mark.parametrize(("join", "needs", "expected"), ROWS)
async def test_a_row_of_the_table_of_joins(
    driver: Driver, join: object, needs: list[str], expected: str
) -> None:
    await driver.publish(joining(join, needs), on_error="finish_others")
    run = await driver.start()
    tasks = [
        (f"n{i}", kind) for i, kind in enumerate(needs) if kind not in ("skipped", "cancelled")
    ]
    tasks += [("failing", "failed")] if "cancelled" in needs else []
    for node, kind in tasks:
        await end(driver, run, node, kind)
    await driver.settle()
    assert (await driver.statuses(run))["j"] == expected
    await driver.drain()
    uncaught = {"failed", "cancelled"} & set(needs)
    state = await driver.engine.run(run)
    assert state.status is (RunStatus.FAILED if uncaught else RunStatus.COMPLETED)


@pytest.mark.parametrize("join", ["any", {"quorum": 1}])
async def test_the_first_that_ended_well_is_what_the_join_reads(
    driver: Driver, join: object
) -> None:
    nodes: Nodes = {
        "a": TASK, "b": TASK, "c": {"when": "false", **TASK},
        "j": {"needs": ["a", "b", "c"], "join": join, "transform": "${join.first}"},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "b"), b'{"n": 1.50}')
    assert (await driver.step(run, "j")).output == b'{"id":"b","output":{"n": 1.50}}'
    await driver.drain()
    assert (await driver.engine.run(run)).output == b'{"j":{"id":"b","output":{"n": 1.50}}}'


async def test_a_quorum_reads_the_very_first_also_in_its_result(driver: Driver) -> None:
    joined = {
        **TASK, "needs": ["a", "b", "c"], "join": {"quorum": 2}, "when": "join.first.id == 'c'",
        "result": "${join.first.output}",
    }  # fmt: skip
    await driver.publish({"a": TASK, "b": TASK, "c": TASK, "j": joined})
    run = await driver.start()
    for node in ("c", "a"):
        await driver.succeed(await driver.acquire(run, node), json.dumps(node).encode())
    granted = await driver.acquire(run, "j")
    await driver.succeed(await driver.acquire(run, "b"), b'"b"')
    await driver.succeed(granted, b'"mine"')
    assert (await driver.step(run, "j")).output == b'"c"'


async def test_r1_two_that_end_in_one_batch_start_an_any_once_with_the_first(
    driver: Driver,
) -> None:
    nodes: Nodes = {
        "a": TASK, "b": TASK,
        "j": {"needs": ["a", "b"], "join": "any", "transform": "${join.first.id}"},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    reports = [success(await driver.acquire(run, node)) for node in ("b", "a")]
    assert await driver.engine.submit(driver.org, run, *reports) == [Applied(), Applied()]
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"j":"b"}')
    assert len(await driver.engine.steps(run)) == 3


@pytest.mark.parametrize("quorum", ["${input.n}", "${nodes.n.output}"])
async def test_a_quorum_may_be_an_expression(driver: Driver, quorum: str) -> None:
    nodes: Nodes = {
        "n": {"transform": "${input.n}"},
        **{id_: {**TASK, "needs": ["n"]} for id_ in ("a", "b", "c")},
        "j": {**TASK, "needs": ["a", "b", "c"], "join": {"quorum": quorum}},
    }
    await driver.publish(nodes)
    run = await driver.start(b'{"n": 2}')
    await driver.succeed(await driver.acquire(run, "a"))
    assert "j" not in await driver.statuses(run)
    await driver.succeed(await driver.acquire(run, "b"))
    assert (await driver.statuses(run))["j"] == "queued"


@pytest.mark.parametrize("n", [b"0", b"true", b'"2"', b"1.5", b"null"])
async def test_a_quorum_that_is_no_number_fails_the_node(driver: Driver, n: bytes) -> None:
    nodes: Nodes = {
        "a": TASK, "b": TASK,
        "j": {**TASK, "needs": ["a", "b"], "join": {"quorum": "${input.n}"}},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start(b'{"n": ' + n + b"}")
    await driver.succeed(await driver.acquire(run, "a"))
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert (state.error.node, state.error.code) == ("j", "EXPRESSION_TYPE")


async def test_skips_and_cancels_pass_through_a_diamond(driver: Driver) -> None:
    """Each arm goes on by its own rule: skipped, cancelled, run; so does what joins them."""
    nodes: Nodes = {
        "bad": TASK,
        "off": {**TASK, "when": "false"},
        "off2": {**TASK, "needs": ["off"]},
        "bad2": {**TASK, "needs": ["bad"]},
        "bad3": {**TASK, "needs": ["bad2", "off2"], "join": "strict"},
        "late": {**TASK, "needs": ["bad3", "off2"], "join": "any"},
        "later": {**TASK, "needs": ["late"], "join": "strict"},
        "after": {**TASK, "needs": ["late", "bad3"]},
        "end": {"needs": ["late", "after", "bad3", "later"], "join": "settled", "transform": 1},
    }
    await driver.publish(nodes)
    run = await driver.start()
    await end(driver, run, "bad", "failed")
    await driver.settle()
    assert await driver.statuses(run) == {
        "bad": "failed", "off": "skipped", "off2": "skipped", "bad2": "cancelled",
        "bad3": "cancelled", "late": "skipped", "later": "skipped", "after": "cancelled",
        "end": "completed",
    }  # fmt: skip
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_two_failures_in_one_batch_settle_what_needs_both(driver: Driver) -> None:
    nodes: Nodes = {
        "a": TASK, "b": TASK,
        "j": {
            "needs": ["a", "b"], "join": "settled",
            "transform": ["${nodes.a.error.code}", "${nodes.b.error.code}"],
        },
    }  # fmt: skip
    await driver.publish(nodes, on_error="finish_others")
    run = await driver.start()
    reports = [
        failure(await driver.acquire(run, node), ErrorClass.PERMANENT, node.upper())
        for node in ("b", "a")
    ]
    assert await driver.engine.submit(driver.org, run, *reports) == [Applied(), Applied()]
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert state.error.code == "B"
    assert (await driver.step(run, "j")).output == b'["A","B"]'
