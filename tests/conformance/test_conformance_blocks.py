"""Sub-graphs: items, passes and groups, on both engines."""

import json
from typing import Any
from uuid import UUID

import pytest
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}
ITEM = {"task": {"handler": "x", "input": "${item}"}}


def fan(nodes: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {"for_each": {"in": "${input.list}", "nodes": nodes or {"work": ITEM}, **members}}


def listed(*items: object) -> bytes:
    return json.dumps({"list": items}).encode()


async def output(driver: Driver, run: UUID) -> Any:
    """Return the output of a run that completed."""
    state = await driver.engine.run(run)
    assert state.status is RunStatus.COMPLETED, state
    return json.loads(state.output or b"")


async def failed(driver: Driver, run: UUID) -> str:
    """Return the code of a run's failure."""
    state = await driver.engine.run(run)
    assert state.status is RunStatus.FAILED, state
    assert state.error is not None
    return state.error.code


async def succeed(driver: Driver, run: UUID, path: str, value: object = None) -> None:
    await driver.succeed(await driver.acquire(run, path), json.dumps(value).encode())


async def test_each_item_runs_in_a_scope_of_its_own_and_the_output_stands_for_the_rows(
    driver: Driver,
) -> None:
    await driver.publish({"batch": fan(), "after": {**TASK, "needs": ["batch"]}})
    run = await driver.start(listed("a", {"n": 12345678901234567890}))
    first = await driver.acquire(run, "batch[0].work")
    second = await driver.acquire(run, "batch[1].work")
    assert (first.step.input, second.step.input) == (b'"a"', b'{"n": 12345678901234567890}')
    await driver.succeed(second)
    assert "after" not in await driver.statuses(run)
    await driver.succeed(first)
    await driver.drain()
    got = await driver.step(run, "batch")
    told = json.loads(got.output or b"")
    assert (told["count"], told["failed"]) == (2, 0)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_an_empty_list_has_no_items_and_ends_at_once(driver: Driver) -> None:
    await driver.publish({"batch": fan()})
    run = await driver.start(listed())
    assert (await output(driver, run))["batch"]["count"] == 0


async def test_no_more_items_run_at_once_than_may(driver: Driver) -> None:
    await driver.publish({"batch": fan(concurrency=2)})
    run = await driver.start(listed(1, 2, 3))
    assert await driver.statuses(run) == {
        "batch": "waiting", "batch[0].work": "queued", "batch[1].work": "queued",
    }  # fmt: skip
    await succeed(driver, run, "batch[1].work")
    assert (await driver.statuses(run))["batch[2].work"] == "queued"


async def test_one_failure_too_many_stops_the_rest_and_fails_the_node(driver: Driver) -> None:
    await driver.publish({"batch": fan(failures={"max": 1})})
    run = await driver.start(listed(1, 2, 3, 4))
    running = await driver.acquire(run, "batch[3].work")
    for index in (0, 1):
        await driver.fail(await driver.acquire(run, f"batch[{index}].work"), ErrorClass.PERMANENT)
    assert (await driver.statuses(run))["batch[2].work"] == "cancelled"
    assert (await driver.statuses(run))["batch"] == "waiting"
    await driver.succeed(running)
    assert await failed(driver, run) == "ITEMS_FAILED"


async def test_a_loop_that_stops_by_a_failure_is_tried_again_once_for_it(driver: Driver) -> None:
    """The items that it cancels while it stops count no failure of their own."""
    retry = {"on": ["ITEMS_FAILED"], "max": 1, "base": "1s"}
    await driver.publish({"batch": {**fan(), "retry": retry}})
    run = await driver.start(listed(1, 2, 3))
    await driver.fail(await driver.acquire(run, "batch[1].work"), ErrorClass.PERMANENT)
    batch = await driver.step(run, "batch")
    assert (str(batch.status), batch.failures) == ("backing_off", 1)
    await driver.engine.advance(1.1)
    await driver.settle()
    for index in range(3):
        await succeed(driver, run, f"batch[{index}].work")
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_failures_that_are_tolerated_are_counted(driver: Driver) -> None:
    await driver.publish({"batch": fan(failures={"max_percent": 50})})
    run = await driver.start(listed(1, 2))
    await driver.fail(await driver.acquire(run, "batch[0].work"), ErrorClass.PERMANENT)
    await succeed(driver, run, "batch[1].work")
    told = (await output(driver, run))["batch"]
    assert (told["count"], told["failed"]) == (2, 1)


async def test_with_then_finish_every_item_ends_before_the_node_fails(driver: Driver) -> None:
    await driver.publish({"batch": fan(failures={"then": "finish"})})
    run = await driver.start(listed(1, 2))
    await driver.fail(await driver.acquire(run, "batch[0].work"), ErrorClass.PERMANENT)
    await succeed(driver, run, "batch[1].work")
    assert await failed(driver, run) == "ITEMS_FAILED"


async def test_stop_when_ends_the_node_well_and_cancels_the_rest(driver: Driver) -> None:
    await driver.publish({"batch": fan(stop_when="output.work == 7")})
    run = await driver.start(listed(1, 2, 3))
    await succeed(driver, run, "batch[0].work", 1)
    await succeed(driver, run, "batch[1].work", 7)
    assert (await driver.statuses(run))["batch[2].work"] == "cancelled"
    assert (await output(driver, run))["batch"]["count"] == 3


async def test_a_batch_of_items_is_one_item(driver: Driver) -> None:
    await driver.publish({"batch": fan(batch=2)})
    run = await driver.start(listed(1, 2, 3))
    granted = [await driver.acquire(run, f"batch[{index}].work") for index in (0, 1)]
    assert [one.step.input for one in granted] == [b"[1,2]", b"[3]"]


async def test_what_is_no_list_fails_the_node(driver: Driver) -> None:
    await driver.publish({"batch": fan()})
    run = await driver.start(b'{"list": {"a": 1}}')
    assert await failed(driver, run) == "EXPRESSION_TYPE"


async def test_a_pass_follows_a_pass_until_its_condition_is_met(driver: Driver) -> None:
    await driver.publish(
        {
            "poll": {
                "repeat": {
                    "until": "nodes.look.output == 'ready'",
                    "every": "10s",
                    "carry": {"tries": {"init": 0, "next": "${carry.tries + 1}"}},
                    "nodes": {"look": {"task": {"handler": "x", "input": "${carry.tries}"}}},
                }
            }
        }
    )
    run = await driver.start()
    await succeed(driver, run, "poll[0].look", "not yet")
    assert "poll[1].look" not in await driver.statuses(run)
    await driver.engine.advance(10.1)
    await driver.settle()
    granted = await driver.acquire(run, "poll[1].look")
    assert granted.step.input == b"1"
    await driver.succeed(granted, b'"ready"')
    assert await output(driver, run) == {
        "poll": {"passes": 2, "carry": {"tries": 2}, "last": {"look": "ready"}}
    }


async def test_the_waits_between_passes_grow_up_to_their_cap(driver: Driver) -> None:
    backoff = {"base": "2s", "factor": 3, "cap": "10s"}
    await driver.publish(
        {"poll": {"repeat": {"until": "index == 4", "backoff": backoff, "nodes": {"look": TASK}}}}
    )
    run = await driver.start()
    waits = []
    for index in range(4):
        await succeed(driver, run, f"poll[{index}].look")
        (timer,) = await driver.engine.timers()
        waits.append(round(timer.remaining))
        await driver.engine.advance(timer.remaining + 0.001)
        await driver.settle()
    assert waits == [2, 6, 10, 10]
    await succeed(driver, run, "poll[4].look")
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_while_that_is_false_at_first_has_no_pass(driver: Driver) -> None:
    await driver.publish({"loop": {"repeat": {"while": "input.go", "nodes": {"work": TASK}}}})
    run = await driver.start(b'{"go": false}')
    assert (await output(driver, run))["loop"] == {"passes": 0, "carry": {}, "last": None}


@pytest.mark.parametrize("exhausted", ["fail", "done"])
async def test_a_loop_whose_passes_are_used_up_ends_as_it_says(
    driver: Driver, exhausted: str
) -> None:
    loop = {"until": "false", "max": 2, "on_exhausted": exhausted, "nodes": {"work": TASK}}
    await driver.publish({"loop": {"repeat": loop}})
    run = await driver.start()
    for index in (0, 1):
        await succeed(driver, run, f"loop[{index}].work")
    if exhausted == "done":
        assert (await output(driver, run))["loop"]["passes"] == 2
    else:
        assert await failed(driver, run) == "LOOP_EXHAUSTED"


async def test_a_spin_of_inline_nodes_goes_on_in_bounded_events_and_ends_by_a_name(
    driver: Driver,
) -> None:
    loop = {"until": "false", "max": 400, "nodes": {"work": {"transform": "${index}"}}}
    await driver.publish({"loop": {"repeat": loop}})
    run = await driver.start()
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    await driver.settle()
    assert await failed(driver, run) == "LOOP_EXHAUSTED"


async def test_a_run_that_spins_past_its_limit_of_steps_fails_by_a_name(driver: Driver) -> None:
    loop = {"until": "false", "nodes": {"work": {"transform": 1}}}
    await driver.publish({"loop": {"repeat": loop}}, limits={"steps": 150})
    run = await driver.start()
    await driver.settle()
    assert await failed(driver, run) == "TOO_MANY_STEPS"


async def test_f096_a_long_loop_keeps_the_passes_that_it_is_told_to(driver: Driver) -> None:
    inner = {"in": "${[1]}", "nodes": {"each": {"transform": 1}}}
    nodes = {"work": TASK, "inner": {"for_each": inner, "needs": ["work"]}}
    await driver.publish({"loop": {"repeat": {"until": "index == 4", "keep": 1, "nodes": nodes}}})
    run = await driver.start()
    for index in range(5):
        await succeed(driver, run, f"loop[{index}].work")
    assert (await output(driver, run))["loop"]["passes"] == 5
    scopes = {step.scope.split(".")[0] for step in await driver.engine.steps(run)}
    assert scopes == {"", "loop[3]", "loop[4]"}
    lines = await driver.engine.history(run)
    assert sum(line.kind == "step_leased" for line in lines) == 2


async def test_f096_a_spin_that_keeps_nothing_leaves_nothing_behind(driver: Driver) -> None:
    loop = {"until": "index == 250", "keep": 0, "nodes": {"work": {"transform": 1}}}
    await driver.publish({"loop": {"repeat": loop}})
    run = await driver.start()
    await driver.settle()
    assert (await output(driver, run))["loop"]["passes"] == 251
    assert len(await driver.engine.steps(run)) == 2


async def test_a_failure_inside_of_a_group_is_caught_outside(driver: Driver) -> None:
    group = {"nodes": {"a": TASK, "b": {**TASK, "needs": ["a"]}}}
    await driver.publish({"g": {"group": group, "on_failure": [{"output": "${error.node}"}]}})
    run = await driver.start()
    await driver.fail(await driver.acquire(run, "g[0].a"), ErrorClass.PERMANENT)
    assert await output(driver, run) == {"g": "a"}
    assert (await driver.statuses(run))["g[0].b"] == "cancelled"


async def test_a_group_is_tried_again_as_a_whole_in_scopes_of_a_new_generation(
    driver: Driver,
) -> None:
    group = {"nodes": {"a": TASK, "b": {**TASK, "needs": ["a"]}}}
    retry = {"on": ["permanent"], "max": 1, "base": "1s"}
    await driver.publish({"g": {"group": group, "retry": retry}})
    run = await driver.start()
    await succeed(driver, run, "g[0].a", 1)
    await driver.fail(await driver.acquire(run, "g[0].b"), ErrorClass.PERMANENT)
    assert (await driver.statuses(run))["g"] == "backing_off"
    await driver.engine.advance(1.1)
    await driver.settle()
    await succeed(driver, run, "g[0].a", 2)
    await succeed(driver, run, "g[0].b", 3)
    assert await output(driver, run) == {"g": {"b": 3}}
    steps = [step for step in await driver.engine.steps(run) if step.node == "a"]
    assert [step.generation for step in steps] == [0, 1]
    assert len({step.effect_prefix for step in steps}) == 1


async def test_a_whole_that_takes_too_long_is_stopped_and_fails(driver: Driver) -> None:
    await driver.publish(
        {"g": {"group": {"nodes": {"a": TASK, "w": {"wait": "1h"}}}, "timeout": 5}}
    )
    run = await driver.start()
    running = await driver.acquire(run, "g[0].a")
    await driver.engine.advance(5.1)
    await driver.fire_due()
    assert (await driver.statuses(run))["g[0].w"] == "cancelled"
    await driver.succeed(running)
    assert await failed(driver, run) == "TIMEOUT"


async def test_loops_in_loops_know_their_items_by_name(driver: Driver) -> None:
    inner = {
        "in": "${order.lines}",
        "as": "line",
        "nodes": {"ship": {"task": {"handler": "x", "input": "${order.id}-${line}-${item}"}}},
    }
    outer = {"in": "${input.list}", "as": "order", "nodes": {"lines": {"for_each": inner}}}
    await driver.publish({"orders": {"for_each": outer}})
    run = await driver.start(
        listed({"id": "o1", "lines": ["x"]}, {"id": "o2", "lines": ["y", "z"]})
    )
    granted = await driver.acquire(run, "orders[1].lines[1].ship")
    assert granted.step.input == b'"o2-z-z"'
    await driver.succeed(granted)
    await driver.drain()
    assert (await output(driver, run))["orders"]["count"] == 2


async def test_nodes_inside_read_what_the_node_around_them_needs(driver: Driver) -> None:
    inside = {"work": {"task": {"handler": "x", "input": "${nodes.rate.output}"}}}
    await driver.publish({"rate": TASK, "batch": {**fan(inside), "needs": ["rate"]}})
    run = await driver.start(listed(1))
    await succeed(driver, run, "rate", {"of": 3})
    assert (await driver.acquire(run, "batch[0].work")).step.input == b'{"of": 3}'


async def test_a_failing_run_stops_what_is_inside_and_waits_for_what_runs(driver: Driver) -> None:
    tell = {**TASK, "needs": ["bad"], "join": "settled"}
    await driver.publish({"bad": TASK, "batch": fan(), "tell": tell})
    run = await driver.start(listed(1, 2))
    running = await driver.acquire(run, "batch[0].work")
    await driver.fail(await driver.acquire(run, "bad"), ErrorClass.PERMANENT)
    await driver.settle()
    assert (await driver.statuses(run))["batch[1].work"] == "cancelled"
    assert (await driver.statuses(run))["batch"] == "waiting"
    await driver.succeed(running)
    assert (await driver.statuses(run))["batch"] == "cancelled"
    await succeed(driver, run, "tell")
    assert await failed(driver, run) == "BROKEN"


async def test_a_closed_run_ends_the_steps_of_all_its_scopes(driver: Driver) -> None:
    await driver.publish({"bad": TASK, "batch": fan()})
    run = await driver.start(listed(*range(30)))
    await driver.fail(await driver.acquire(run, "bad"), ErrorClass.PERMANENT)
    assert await failed(driver, run) == "BROKEN"
    await driver.settle()
    assert set((await driver.statuses(run)).values()) == {"cancelled", "failed"}


async def test_a_long_list_is_made_and_begun_in_bounded_events(driver: Driver) -> None:
    inside = {"work": {"transform": "${item * 2}"}}
    await driver.publish({"batch": fan(inside)}, limits={"steps": 5000})
    run = await driver.start(listed(*range(600)))
    await driver.settle()
    told = (await output(driver, run))["batch"]
    assert (told["count"], told["failed"]) == (600, 0)


async def test_finish_inside_of_an_item_ends_the_run(driver: Driver) -> None:
    inside = {"work": ITEM, "end": {"needs": ["work"], "finish": {"output": "${item}"}}}
    await driver.publish({"batch": fan(inside)})
    run = await driver.start(listed("a", "b"))
    await succeed(driver, run, "batch[1].work")
    assert await output(driver, run) == "b"
