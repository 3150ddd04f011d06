"""Graphs: joins, conditions, inline work, waits, the run's output, and bounds of one event."""

import json

import pytest
from perdure_machine.events import CancelRun
from perdure_machine.replies import Applied, Cancelled
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_testkit.engines.driver import Driver, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK: dict[str, object] = {"task": {"handler": "x"}}


def needing(node: dict[str, object], *needs: str, **more: object) -> dict[str, object]:
    return {**node, "needs": list(needs), **more}


def value(template: object) -> dict[str, object]:
    return {"transform": template}


async def test_r1_a_join_starts_once_when_the_last_need_ends(driver: Driver) -> None:
    await driver.publish({"a": TASK, "b": TASK, "j": needing(TASK, "a", "b")})
    run = await driver.start()
    first, second = await driver.acquire(run, "a"), await driver.acquire(run, "b")
    await driver.succeed(first)
    assert "j" not in await driver.statuses(run)
    await driver.succeed(second)
    assert (await driver.statuses(run))["j"] == "queued"


async def test_r1_both_needs_of_a_join_may_end_in_one_batch(driver: Driver) -> None:
    await driver.publish({"a": TASK, "b": TASK, "j": needing(TASK, "a", "b")})
    run = await driver.start()
    reports = [success(await driver.acquire(run, node)) for node in ("a", "b")]
    assert await driver.engine.submit(driver.org, run, *reports) == [Applied(), Applied()]
    assert await driver.statuses(run) == {"a": "completed", "b": "completed", "j": "queued"}


@pytest.mark.parametrize(
    ("left", "right", "join"),
    [
        ("true", "true", "queued"),
        ("true", "false", "queued"),
        ("false", "true", "queued"),
        ("false", "false", "skipped"),
    ],
)
async def test_a_join_runs_if_one_need_ended_well_and_is_skipped_with_all(
    driver: Driver, left: str, right: str, join: str
) -> None:

    await driver.publish(
        {
            "a": TASK,
            "l": needing(TASK, "a", when=left),
            "r": needing(value(1), "a", when=right),
            "j": needing(TASK, "l", "r"),
        }
    )
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    if left == "true":
        await driver.succeed(await driver.acquire(run, "l"))
    assert (await driver.statuses(run))["j"] == join
    if join == "skipped":
        assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_run_without_work_ends_as_it_starts(driver: Driver) -> None:
    await driver.publish({"a": value("${input.n}"), "b": needing(value("${nodes.a.output}"), "a")})
    run = await driver.start(b'{"n": 3}')
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"b":3}')
    assert await driver.kinds(run) == [
        "run_started", "step_completed", "step_completed", "run_completed",
    ]  # fmt: skip


async def test_absent_values_are_left_out_of_the_output(driver: Driver) -> None:
    nodes = {"a": value({"x": 1}), "b": needing(TASK, "a", when="false")}
    await driver.publish(
        nodes, output={"x": "${nodes.a.output.x}", "y": "${nodes.b.output}", "z": None}
    )
    state = await driver.engine.run(await driver.start())
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"x":1,"z":null}')


async def test_a_run_whose_output_has_no_value_fails_and_says_so(driver: Driver) -> None:
    await driver.publish({"a": TASK}, output={"x": "${nodes.a.output.n + 1}"})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), b'{"n": "text"}')
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.FAILED, None)
    assert state.error is not None
    assert state.error.node == ""
    assert (await driver.step(run, "a")).status is StepStatus.COMPLETED


async def test_an_input_that_has_no_value_fails_the_node_and_its_run(driver: Driver) -> None:
    node = {"task": {"handler": "x", "input": "${nodes.a.output.missing}"}, "needs": ["a"]}
    await driver.publish({"a": TASK, "b": node, "c": TASK})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"), b"{}")
    assert (await driver.statuses(run))["b"] == "failed"
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert state.error.node == "b"
    await driver.settle()
    assert (await driver.statuses(run))["c"] == "cancelled"


async def test_a_wait_ends_by_its_timer_and_shapes_its_result(driver: Driver) -> None:
    nodes = {
        "w": {"wait": "${input.delay}", "result": {"waited": "${input.delay}"}},
        "b": needing(value("${nodes.w.output.waited}"), "w"),
    }
    await driver.publish(nodes)
    run = await driver.start(b'{"delay": "90s"}')
    (timer,) = await driver.engine.timers()
    assert timer.kind is TimerKind.WAIT
    assert timer.remaining == pytest.approx(90, abs=10)
    await driver.engine.advance(91)
    assert await driver.fire_due() == [Applied()]
    assert (await driver.engine.run(run)).output == b'{"b":"90s"}'


async def test_a_wait_whose_result_has_no_value_fails_the_run(driver: Driver) -> None:
    await driver.publish({"w": {"wait": "1s", "result": "${input.missing}"}})
    run = await driver.start()
    await driver.engine.advance(2)
    assert await driver.fire_due() == [Applied()]
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert (await driver.step(run, "w")).status is StepStatus.FAILED


async def test_a_chain_of_250_inline_nodes_goes_on_by_internal_events(driver: Driver) -> None:
    """Each node reads others than its need, and the first and the last read the run's input."""
    nodes: dict[str, object] = {"n0": value("${input.n}")}
    for i in range(1, 250):
        nodes[f"n{i}"] = needing(
            value(f"${{nodes.n{i - 1}.output + nodes.n0.output}}"), f"n{i - 1}"
        )
    nodes["last"] = needing(value(["${nodes.n249.output}", "${input.n}"]), "n249")
    await driver.publish(nodes)
    run = await driver.start(b'{"n": 2}')
    assert len(await driver.statuses(run)) == 100
    (timer,) = await driver.engine.timers()
    assert (timer.kind, timer.step) == (TimerKind.ADVANCE, None)
    assert await driver.fire_due() == [Applied()]
    assert await driver.fire_due() == [Applied()]
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"last":[500,2]}')


async def test_inline_work_after_a_report_goes_on_by_internal_events_too(driver: Driver) -> None:
    nodes: dict[str, object] = {"a": TASK, "far": TASK}
    for i in range(130):
        read = "nodes.far.output" if i == 129 else "nodes.a.output"
        needs = ["a", "far"] if i == 129 else ["a"]
        nodes[f"t{i}"] = needing(value(f"${{{read}}}"), *needs)
    await driver.publish(nodes, output={f"t{i}": f"${{nodes.t{i}.output}}" for i in range(130)})
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "far"), b'"far"')
    await driver.succeed(await driver.acquire(run, "a"), b'"near"')
    await driver.settle()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.COMPLETED
    assert state.output is not None
    output = json.loads(state.output)
    assert (output["t0"], output["t128"], output["t129"]) == ("near", "near", "far")


async def test_an_internal_event_of_a_run_that_was_cancelled_begins_nothing(
    driver: Driver,
) -> None:
    await driver.publish({f"t{i}": TASK for i in range(120)})
    run = await driver.start()
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=True)
    await driver.settle()
    assert set((await driver.statuses(run)).values()) == {"cancelled"}
    assert len(await driver.statuses(run)) == 100
    assert list(await driver.engine.timers()) == []


async def test_600_parallel_steps_are_cancelled_500_at_a_time(driver: Driver) -> None:
    await driver.publish({f"t{i}": TASK for i in range(600)})
    run = await driver.start()
    await driver.settle()
    assert len(await driver.engine.queued()) == 600
    held = await driver.acquire(run, "t7")
    assert await driver.submit(run, CancelRun("enough")) == Cancelled(changed=True)
    assert await driver.fire_due() == [Applied()]
    assert len(await driver.engine.queued()) == 99
    assert await driver.fire_due() == [Applied()]
    assert len(await driver.engine.queued()) == 0
    statuses = await driver.statuses(run)
    assert [node for node, status in statuses.items() if status != "cancelled"] == ["t7"]
    assert await driver.succeed(held) == Applied()
    assert (await driver.step(run, "t7")).status is StepStatus.COMPLETED
    assert list(await driver.engine.timers()) == []


async def test_a_run_that_reaches_its_limit_of_steps_fails(driver: Driver) -> None:
    nodes = {f"t{i}": TASK for i in range(5)}
    await driver.publish(nodes, limits={"steps": 3})
    run = await driver.start()
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert state.error.code == "TOO_MANY_STEPS"
    await driver.settle()
    assert list(await driver.engine.queued()) == []
