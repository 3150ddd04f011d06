"""Switches, `fail` and `finish`: what directs a run, and ends it, from inside."""

import json

import pytest
from perdure_machine.events import Acquire
from perdure_machine.replies import Applied, Gone
from perdure_machine.states import RunStatus, StepStatus
from perdure_testkit.engines.driver import Driver, new_lease, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

Nodes = dict[str, object]

TASK: Nodes = {"task": {"handler": "x"}}


def switching(*, otherwise: bool) -> Nodes:
    cases = [
        {"when": "input.n > 10", "then": ["big"]},
        {"when": "input.n > 5", "then": ["middle", "both"]},
    ]
    rest = {"else": ["small", "both"]} if otherwise else {}
    return {
        "sw": {"switch": {"cases": cases, **rest}},
        **{id_: {"transform": id_} for id_ in ("big", "middle", "both")},
        **({"small": {"transform": "small"}} if otherwise else {}),
        "end": {
            "needs": ["big", "middle", "both"],
            "transform": "${coalesce(nodes.big.output, nodes.both.output)}",
        },
    }


@pytest.mark.parametrize(
    ("n", "ran"),
    [(11, {"big", "end"}), (6, {"middle", "both", "end"}), (1, {"small", "both", "end"})],
)
async def test_the_first_true_case_takes_its_edges_and_the_others_arrive_skipped(
    driver: Driver, n: int, ran: set[str]
) -> None:
    await driver.publish(switching(otherwise=True))
    run = await driver.start(json.dumps({"n": n}).encode())
    statuses = await driver.statuses(run)
    assert {node for node, status in statuses.items() if status == "completed"} == ran | {"sw"}
    assert set(statuses.values()) == {"completed", "skipped"}
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_without_a_true_case_and_an_else_all_edges_are_skipped(driver: Driver) -> None:
    await driver.publish(switching(otherwise=False))
    run = await driver.start(b'{"n": 1}')
    assert await driver.statuses(run) == {
        "sw": "completed", "big": "skipped", "middle": "skipped", "both": "skipped",
        "end": "skipped",
    }  # fmt: skip
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b"{}")


async def test_a_switch_after_work_takes_what_its_output_says(driver: Driver) -> None:
    nodes: Nodes = {
        "a": TASK,
        "sw": {
            "needs": ["a"],
            "switch": {"cases": [{"when": "nodes.a.output.ok", "then": ["yes"]}], "else": ["no"]},
        },
        "yes": TASK,
        "no": TASK,
        "after": {**TASK, "needs": ["no", "yes"], "join": "any"},
    }
    await driver.publish(nodes)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), b'{"ok": false}')
    assert await driver.statuses(run) == {
        "a": "completed", "sw": "completed", "yes": "skipped", "no": "queued",
    }  # fmt: skip
    assert (await driver.step(run, "sw")).taken == ("no",)
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_switch_that_is_skipped_skips_all_of_its_edges(driver: Driver) -> None:
    nodes: Nodes = {
        "sw": {"when": "false", "switch": {"cases": [{"when": "true", "then": ["a"]}]}},
        "a": TASK,
    }
    await driver.publish(nodes)
    run = await driver.start()
    assert await driver.statuses(run) == {"sw": "skipped", "a": "skipped"}


async def test_a_condition_without_a_value_fails_the_switch(driver: Driver) -> None:
    nodes: Nodes = {"sw": {"switch": {"cases": [{"when": "input.x", "then": ["a"]}]}}, "a": TASK}
    await driver.publish(nodes)
    run = await driver.start()
    assert (await driver.step(run, "sw")).status is StepStatus.FAILED
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_fail_fails_its_run_with_the_error_of_the_author(driver: Driver) -> None:
    nodes: Nodes = {
        "bad": {
            "fail": {
                "code": "NO_${input.what}",
                "message": "none of ${input.n}",
                "output": {"n": "${input.n}"},
            }
        },
        "after": {**TASK, "needs": ["bad"]},
    }
    await driver.publish(nodes)
    run = await driver.start(b'{"what": "STOCK", "n": 9007199254740993}')
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert (state.error.category, state.error.code, state.error.node) == (
        "permanent", "NO_STOCK", "bad",
    )  # fmt: skip
    assert (state.error.message, state.error.details) == (
        "none of 9007199254740993", b'{"n":9007199254740993}',
    )  # fmt: skip


async def test_a_fail_may_be_caught_like_any_failure(driver: Driver) -> None:
    nodes: Nodes = {
        "bad": {
            "fail": {"code": "X", "output": [1]},
            "on_failure": [{"when": "error.code == 'X'", "output": "${error.details}"}],
        },
        "after": {"needs": ["bad"], "transform": "${nodes.bad.output}"},
    }
    await driver.publish(nodes)
    state = await driver.engine.run(await driver.start())
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"after":[1]}')


async def test_the_output_of_a_fail_that_is_too_large_is_dropped_and_told(driver: Driver) -> None:
    await driver.publish({"bad": {"fail": {"code": "X", "message": "m", "output": "${input}"}}})
    state = await driver.engine.run(await driver.start(json.dumps("x" * 70_000).encode()))
    assert state.error is not None
    assert state.error.details is None
    assert state.error.message == "m (its output of 70002 bytes is too large)"


async def test_a_finish_ends_the_run_and_the_rest_is_cancelled(driver: Driver) -> None:
    nodes: Nodes = {
        "a": TASK,
        "done": {
            "needs": ["a"],
            "finish": {"output": {"n": "${nodes.a.output}", "no": "${nodes.a.error}"}},
        },
        "queued": TASK,
        "running": TASK,
        "wait": {"wait": "1h"},
        "never": {**TASK, "needs": ["queued"]},
        "beside": {**TASK, "needs": ["a"]},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    held = await driver.acquire(run, "running")
    await driver.succeed(await driver.acquire(run, "a"), b"1.0")
    state = await driver.engine.run(run)
    assert (state.status, state.output, state.error) == (
        RunStatus.COMPLETED, b'{"n":1.0}', None,
    )  # fmt: skip
    await driver.settle()
    statuses = await driver.statuses(run)
    assert statuses == {
        "a": "completed", "done": "completed", "queued": "cancelled", "running": "running",
        "wait": "cancelled",
    }  # fmt: skip
    assert await driver.succeed(held) == Applied()
    assert list(await driver.engine.timers()) == []
    assert list(await driver.engine.queued()) == []
    assert (await driver.engine.run(run)).output == b'{"n":1.0}'


async def test_a_finish_without_an_output_has_the_one_of_the_document(driver: Driver) -> None:
    nodes: Nodes = {"a": {"transform": 1}, "done": {"needs": ["a"], "finish": {}}, "b": TASK}
    await driver.publish(nodes, output={"a": "${nodes.a.output}", "b": "${nodes.b.output}"})
    state = await driver.engine.run(await driver.start())
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"a":1}')


async def test_a_finish_behind_a_case_that_is_not_taken_ends_nothing(driver: Driver) -> None:
    nodes: Nodes = {
        "sw": {"switch": {"cases": [{"when": "input.stop", "then": ["done"]}]}},
        "done": {"finish": {}},
        "a": TASK,
    }
    await driver.publish(nodes)
    run = await driver.start(b'{"stop": false}')
    await driver.drain()
    assert await driver.statuses(run) == {"sw": "completed", "done": "skipped", "a": "completed"}


async def test_a_finish_of_a_run_that_fails_ends_it_failed(driver: Driver) -> None:
    nodes: Nodes = {
        "bad": {"fail": {"code": "X"}},
        "a": TASK,
        "done": {"needs": ["a"], "finish": {"output": 1}},
        "b": TASK,
    }
    await driver.publish(nodes, on_error="finish_others")
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.FAILED, None)
    assert state.error is not None
    assert state.error.code == "X"


async def test_a_result_after_a_finish_in_one_batch_does_not_reopen_the_run(
    driver: Driver,
) -> None:
    nodes: Nodes = {
        "a": TASK, "b": TASK, "done": {"needs": ["a"], "finish": {"output": 1}},
        "late": {**TASK, "needs": ["b"]},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    reports = [success(await driver.acquire(run, node)) for node in ("a", "b")]
    assert await driver.engine.submit(driver.org, run, *reports) == [Applied(), Applied()]
    await driver.settle()
    assert "late" not in await driver.statuses(run)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_nobody_is_given_a_step_after_a_finish(driver: Driver) -> None:
    await driver.publish({"a": TASK, "b": TASK, "done": {"needs": ["a"], "finish": {}}})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    step = await driver.step(run, "b")
    assert await driver.submit(run, Acquire(step.step, new_lease(), "worker")) == Gone()
    await driver.settle()
