"""Failures: caught in each way, and uncaught ones with `on_error` both ways."""

from uuid import UUID

import pytest
from perdure_machine.events import CancelRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Cancelled
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_testkit.engines.driver import Driver, failure, lease_of, success

pytestmark = pytest.mark.asyncio(loop_scope="session")

Nodes = dict[str, object]

TASK: Nodes = {"task": {"handler": "x"}}


def catching(*handlers: object, **more: object) -> Nodes:
    return {**TASK, "on_failure": list(handlers), **more}


def needing(*needs: str, **more: object) -> Nodes:
    return {**TASK, "needs": list(needs), **more}


async def fail(driver: Driver, run: UUID, node: str, code: str = "BROKEN") -> None:
    await driver.fail(await driver.acquire(run, node), ErrorClass.PERMANENT, code)


async def assert_failed(driver: Driver, run: UUID, node: str, code: str) -> None:
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED
    assert state.error is not None
    assert (state.error.node, state.error.code) == (node, code)


async def test_a_failure_caught_by_output_has_ended_well_with_it(driver: Driver) -> None:
    nodes: Nodes = {
        "a": catching({"output": {"class": "${error.class}", "code": "${error.code}"}}),
        "b": {
            "needs": ["a"], "join": "strict",
            "transform": ["${nodes.a.output}", "${nodes.a.status}", "${nodes.a.error.message}"],
        },
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    await fail(driver, run, "a", "GONE")
    assert (await driver.step(run, "a")).status is StepStatus.COMPLETED
    assert (await driver.step(run, "b")).output == (
        b'[{"class":"permanent","code":"GONE"},"completed","it broke"]'
    )
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert "step_caught" in await driver.kinds(run)


async def test_a_failure_caught_by_then_leads_to_those_nodes_alone(driver: Driver) -> None:
    nodes: Nodes = {
        "a": catching({"then": ["tell", "both"]}),
        "tell": {"transform": "${nodes.a.error.code}"},
        "both": needing("a"),
        "usual": needing("a"),
        "end": {"needs": ["tell", "usual"], "transform": 1},
    }
    await driver.publish(nodes)
    run = await driver.start()
    await fail(driver, run, "a", "GONE")
    assert await driver.statuses(run) == {
        "a": "failed", "tell": "completed", "both": "queued", "usual": "skipped",
        "end": "completed",
    }  # fmt: skip
    assert (await driver.step(run, "tell")).output == b'"GONE"'
    await driver.drain()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_the_nodes_that_a_handler_alone_names_are_skipped_when_all_is_well(
    driver: Driver,
) -> None:
    nodes: Nodes = {
        "a": catching({"then": ["tell", "both"]}), "tell": TASK, "both": needing("a"),
        "after": needing("tell"),
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "a"))
    assert await driver.statuses(run) == {
        "a": "completed", "tell": "skipped", "both": "queued", "after": "skipped",
    }  # fmt: skip


@pytest.mark.parametrize("code", ["ONE", "TWO", "OTHER"])
async def test_the_first_handler_that_matches_counts(driver: Driver, code: str) -> None:
    handlers = [
        {"when": "error.code == 'ONE'", "output": 1},
        {"when": "error.code in ['ONE', 'TWO']", "output": "${input.two}"},
        {"when": "error.class == 'retryable'", "output": 3},
    ]
    await driver.publish({"a": catching(*handlers)})
    run = await driver.start(b'{"two": 2}')
    await fail(driver, run, "a", code)
    state = await driver.engine.run(run)
    expected = {"ONE": b'{"a":1}', "TWO": b'{"a":2}', "OTHER": None}[code]
    assert state.output == expected
    assert state.status is (RunStatus.COMPLETED if expected else RunStatus.FAILED)


async def test_a_handler_that_fails_replaces_the_error_and_leaves_it_uncaught(
    driver: Driver,
) -> None:
    made = {
        "code": "NO_CRM",
        "message": "crm: ${error.message}",
        "output": {"was": "${error.code}"},
    }
    await driver.publish({"a": catching({"fail": made}), "b": needing("a")})
    run = await driver.start()
    await fail(driver, run, "a", "GONE")
    await assert_failed(driver, run, "a", "NO_CRM")
    error = (await driver.step(run, "a")).error
    assert error is not None
    assert (error.message, error.details) == ("crm: it broke", b'{"was":"GONE"}')


async def test_a_handler_without_a_value_leaves_the_failure_uncaught_and_tells_both(
    driver: Driver,
) -> None:
    await driver.publish({"a": catching({"when": "input.no", "output": 1})})
    run = await driver.start()
    await fail(driver, run, "a", "GONE")
    await assert_failed(driver, run, "a", "EXPRESSION_ABSENT")
    error = (await driver.step(run, "a")).error
    assert error is not None
    assert error.message.endswith("it was to handle GONE: it broke")


async def test_failures_are_caught_after_the_last_try_only(driver: Driver) -> None:
    await driver.publish({"a": catching({"output": 1}, retry={"max": 1})})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "a"))
    assert (await driver.step(run, "a")).status is StepStatus.BACKING_OFF
    await driver.engine.advance(2)
    await driver.fire_due()
    await driver.fail(await driver.acquire(run, "a"))
    assert (await driver.engine.run(run)).output == b'{"a":1}'


@pytest.mark.parametrize(
    "node",
    [
        {"transform": "${input.missing}"},
        {"when": "input.missing", "transform": 1},
        {"task": {"handler": "x", "input": "${input.missing}"}},
        {"wait": "${input.missing}"},
    ],
)
async def test_a_failure_before_the_beginning_is_caught_too(driver: Driver, node: Nodes) -> None:
    caught = {**node, "on_failure": [{"then": ["h"]}]}
    await driver.publish({"a": caught, "h": {"transform": "${nodes.a.error.code}"}})
    state = await driver.engine.run(await driver.start())
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"h":"EXPRESSION_ABSENT"}')


async def test_lost_workers_may_be_caught(driver: Driver) -> None:
    await driver.publish({"a": catching({"when": "error.class == 'poison'", "output": "gave up"})})
    run = await driver.start()
    for _ in range(5):
        if (await driver.engine.run(run)).status is RunStatus.RUNNING:
            await driver.acquire(run, "a")
            await driver.engine.advance(11)
            await driver.expire_due()
    assert (await driver.engine.run(run)).output == b'{"a":"gave up"}'


STOPPED: Nodes = {
    "bad": TASK,
    "child": needing("bad"),
    "clean": needing("bad", join="settled"),
    "cleaned": needing("clean"),
    "queued": TASK,
    "running": TASK,
    "late": needing("running"),
    "wait": {"wait": "1h"},
    "backing": TASK,
    "done": TASK,
    "never": needing("queued"),
    "ends": {"needs": ["clean", "never", "running"], "join": "settled", "transform": "ended"},
}


async def stopped(driver: Driver) -> UUID:
    await driver.publish(STOPPED)
    run = await driver.start()
    await driver.succeed(await driver.acquire(run, "done"))
    await driver.fail(await driver.acquire(run, "backing"))
    return run


async def test_on_error_stop_cancels_what_does_not_descend_and_lets_the_rest_clean_up(
    driver: Driver,
) -> None:
    run = await stopped(driver)
    held = await driver.acquire(run, "running")
    await fail(driver, run, "bad")
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    assert await driver.statuses(run) == {
        "bad": "failed", "child": "cancelled", "clean": "queued", "queued": "cancelled",
        "running": "running", "late": "cancelled", "wait": "cancelled", "backing": "cancelled",
        "done": "completed", "never": "cancelled",
    }  # fmt: skip
    assert list(await driver.engine.timers()) == []
    assert await driver.fail(held) == Applied()
    assert (await driver.step(run, "running")).status is StepStatus.CANCELLED
    await driver.drain()
    statuses = await driver.statuses(run)
    assert (statuses["clean"], statuses["cleaned"], statuses["ends"]) == ("completed",) * 3
    await assert_failed(driver, run, "bad", "BROKEN")


async def test_a_running_step_of_a_run_that_stops_may_still_end_well(driver: Driver) -> None:
    run = await stopped(driver)
    held = await driver.acquire(run, "running")
    await fail(driver, run, "bad")
    await driver.settle()
    assert await driver.engine.renew(driver.org, lease_of(held)) is not None
    assert await driver.succeed(held) == Applied()
    statuses = await driver.statuses(run)
    assert (statuses["running"], statuses["late"]) == ("completed", "cancelled")
    await driver.drain()
    await assert_failed(driver, run, "bad", "BROKEN")


@pytest.mark.parametrize("how", ["lost", "timed out"])
async def test_a_running_step_of_a_run_that_stops_is_not_tried_again(
    driver: Driver, how: str
) -> None:
    timeout = {"timeout": "5s"} if how == "timed out" else {}
    nodes: Nodes = {
        "bad": TASK, "clean": needing("bad", join="settled"), "running": {**TASK, **timeout},
    }  # fmt: skip
    await driver.publish(nodes)
    run = await driver.start()
    await driver.acquire(run, "running")
    await fail(driver, run, "bad")
    await driver.settle()
    await driver.engine.advance(11)
    assert await driver.expire_due() == [Applied()]
    assert (await driver.step(run, "running")).status is StepStatus.CANCELLED
    await driver.drain()
    await assert_failed(driver, run, "bad", "BROKEN")


async def test_what_becomes_due_while_a_run_stops_begins_nothing_new(driver: Driver) -> None:
    run = await stopped(driver)
    await fail(driver, run, "bad")
    held = await driver.acquire(run, "queued")
    await driver.succeed(held)
    assert (await driver.statuses(run))["never"] == "cancelled"
    await driver.drain()
    await assert_failed(driver, run, "bad", "BROKEN")


async def test_a_failure_that_leaves_nothing_to_run_closes_its_run_at_once(driver: Driver) -> None:
    nodes: Nodes = {"bad": TASK, "child": needing("bad"), "other": TASK}
    await driver.publish(nodes)
    run = await driver.start()
    await fail(driver, run, "bad")
    await assert_failed(driver, run, "bad", "BROKEN")
    await driver.settle()
    assert await driver.statuses(run) == {"bad": "failed", "other": "cancelled"}


async def test_finish_others_lets_them_end_and_then_the_run_fails(driver: Driver) -> None:
    nodes: Nodes = {
        "bad": TASK, "child": needing("bad"), "grandchild": needing("child", "other"),
        "other": TASK, "after": needing("other"),
    }  # fmt: skip
    await driver.publish(nodes, on_error="finish_others")
    run = await driver.start()
    await fail(driver, run, "bad")
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    await driver.drain()
    assert await driver.statuses(run) == {
        "bad": "failed", "child": "cancelled", "grandchild": "cancelled", "other": "completed",
        "after": "completed",
    }  # fmt: skip
    await assert_failed(driver, run, "bad", "BROKEN")
    assert (await driver.kinds(run))[-1] == "run_failed"


@pytest.mark.parametrize("on_error", ["stop", "finish_others"])
async def test_the_first_failure_is_the_error_of_the_run(driver: Driver, on_error: str) -> None:
    nodes: Nodes = {"a": TASK, "b": TASK, "end": needing("a", "b", join="settled")}
    await driver.publish(nodes, on_error=on_error)
    run = await driver.start()
    held = [await driver.acquire(run, node) for node in ("a", "b")]
    reports = [
        failure(held[1], ErrorClass.PERMANENT, "FIRST"),
        failure(held[0], ErrorClass.PERMANENT, "SECOND"),
    ]
    assert await driver.engine.submit(driver.org, run, *reports) == [Applied(), Applied()]
    await driver.drain()
    await assert_failed(driver, run, "b", "FIRST")
    assert (await driver.statuses(run))["end"] == "completed"


async def test_a_failure_and_a_success_in_one_batch_meet_in_a_join(driver: Driver) -> None:
    nodes: Nodes = {
        "a": TASK, "b": TASK, "all": needing("a", "b"),
        "end": {"needs": ["all", "a", "b"], "join": "settled", "transform": "${nodes.all.status}"},
    }  # fmt: skip
    await driver.publish(nodes, on_error="finish_others")
    run = await driver.start()
    held = [await driver.acquire(run, node) for node in ("a", "b")]
    reports = [failure(held[0], ErrorClass.PERMANENT), success(held[1])]
    assert await driver.engine.submit(driver.org, run, *reports) == [Applied(), Applied()]
    assert (await driver.step(run, "end")).output == b'"cancelled"'
    await assert_failed(driver, run, "a", "BROKEN")


async def test_a_clean_up_that_fails_does_not_stop_the_others(driver: Driver) -> None:
    nodes: Nodes = {
        "bad": TASK,
        "one": needing("bad", join="settled"),
        "two": needing("bad", join="settled"),
        "other": TASK,
    }
    await driver.publish(nodes)
    run = await driver.start()
    await fail(driver, run, "bad", "FIRST")
    await fail(driver, run, "one", "SECOND")
    await driver.settle()
    assert (await driver.statuses(run))["two"] == "queued"
    await driver.drain()
    assert (await driver.statuses(run))["two"] == "completed"
    await assert_failed(driver, run, "bad", "FIRST")


async def test_r10_700_nodes_of_a_run_that_stops_end_by_internal_events(driver: Driver) -> None:
    nodes: Nodes = {f"t{i}": TASK for i in range(350)}
    nodes |= {f"u{i}": needing(f"t{i}") for i in range(350)}
    nodes |= {"bad": TASK, "clean": needing("bad", join="settled")}
    await driver.publish(nodes)
    run = await driver.start()
    await driver.settle()
    await fail(driver, run, "bad")
    (timer,) = await driver.engine.timers()
    assert (timer.kind, timer.step) == (TimerKind.ADVANCE, None)
    while timers := [t for t in await driver.engine.timers() if t.kind is TimerKind.ADVANCE]:
        before = list((await driver.statuses(run)).values()).count("cancelled")
        assert await driver.fire_due() == [Applied()] * len(timers)
        after = list((await driver.statuses(run)).values()).count("cancelled")
        assert after - before <= 500
        assert not await driver.engine.no_way_forward()
    statuses = await driver.statuses(run)
    assert statuses.pop("bad") == "failed"
    assert statuses.pop("clean") == "queued"
    assert len(statuses) == 700
    assert set(statuses.values()) == {"cancelled"}
    await driver.drain()
    await assert_failed(driver, run, "bad", "BROKEN")


async def test_a_long_chain_behind_a_failure_is_cancelled_to_its_end(driver: Driver) -> None:
    nodes: Nodes = {"bad": TASK, "n0": needing("bad")}
    nodes |= {f"n{i}": needing(f"n{i - 1}") for i in range(1, 300)}
    nodes["end"] = {"needs": ["n299", "bad"], "join": "settled", "transform": "${input.x}"}
    await driver.publish(nodes)
    run = await driver.start(b'{"x": 1}')
    await fail(driver, run, "bad")
    await driver.settle()
    assert (await driver.step(run, "end")).output == b"1"
    await assert_failed(driver, run, "bad", "BROKEN")


async def test_many_that_fail_at_once_each_leave_their_own_clean_up(driver: Driver) -> None:
    """Each reads the output of a node far away, and a decision asks for all of it together."""
    nodes: Nodes = {f"far{i}": TASK for i in range(20)}
    for i in range(20):
        nodes[f"bad{i}"] = {
            "needs": ["go", f"far{i}"], "transform": "${input.missing}",
            "on_failure": [{"when": f"nodes.far{i}.output < 0", "output": 1}],
        }  # fmt: skip
        nodes[f"clean{i}"] = {
            "needs": [f"bad{i}"], "join": "settled", "transform": f"${{nodes.far{i}.output}}",
        }  # fmt: skip
    await driver.publish({"go": TASK, **nodes}, on_error="finish_others")
    run = await driver.start()
    for i in range(20):
        await driver.succeed(await driver.acquire(run, f"far{i}"), str(i).encode())
    await driver.succeed(await driver.acquire(run, "go"))
    for i in range(20):
        assert (await driver.step(run, f"clean{i}")).output == str(i).encode()
    await assert_failed(driver, run, "bad0", "EXPRESSION_ABSENT")


async def test_a_run_that_fails_can_be_cancelled(driver: Driver) -> None:
    await driver.publish(STOPPED)
    run = await driver.start()
    await fail(driver, run, "bad")
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=True)
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.error) == (RunStatus.CANCELLED, None)
    assert (await driver.statuses(run))["clean"] == "cancelled"


async def test_a_run_that_fails_shows_its_error_while_it_goes_on(driver: Driver) -> None:
    run = await stopped(driver)
    await fail(driver, run, "bad")
    state = await driver.engine.run(run)
    assert state.status is RunStatus.RUNNING
    assert state.error is not None
    assert state.error.node == "bad"
    assert "run_failing" in await driver.kinds(run)
    await driver.drain()
