"""What the end of a run does to its children, and `cancel_run` (design section 12)."""

from uuid import UUID, uuid4

import pytest
from perdure_machine.events import CancelRun
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Cancelled
from perdure_machine.states import RunStatus, StepStatus
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.port import Engine

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x"}}


@pytest.fixture
def child(engine: Engine) -> Driver:
    """Somebody who drives the runs of the child's workflow."""
    return Driver(engine)


async def publish(parent: Driver, child: Driver, **more: object) -> None:
    """Publish a child of one task, and a parent that calls it by every rule."""
    await child.publish({"work": TASK})
    nodes = {
        "cancel": {"run": {"workflow": child.workflow}},
        "abandon": {"run": {"workflow": child.workflow, "on_parent_end": "abandon"}},
        "wait": {"run": {"workflow": child.workflow, "on_parent_end": "wait"}},
        "loose": {"run": {"workflow": child.workflow, "wait": False, "on_parent_end": "cancel"}},
        "own": TASK,
    }
    await parent.publish(nodes, **more)


async def children_of(parent: Driver, run: UUID) -> dict[str, UUID]:
    """Let what is due happen; return the children by their nodes."""
    await parent.settle()
    nodes = {step.step: step.node for step in await parent.engine.steps(run)}
    children = await parent.engine.children(run)
    return {nodes[one.step]: one.run_id for one in children if one.run_id is not None}


async def statuses(parent: Driver, children: dict[str, UUID]) -> dict[str, str]:
    """Return how each node's child stands."""
    return {
        node: str((await parent.engine.run(run)).status)
        for node, run in children.items()
    }  # fmt: skip


async def complete(child: Driver, run: UUID) -> None:
    """Let a child end well."""
    await child.succeed(await child.acquire(run, "work"))
    await child.settle()


async def test_a_cancelled_run_cancels_the_children_whose_rule_says_so_f036(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start()
    children = await children_of(driver, run)
    assert await driver.submit(run, CancelRun()) == Cancelled(changed=True)
    await driver.settle()
    assert await statuses(driver, children) == {
        "cancel": "cancelled", "abandon": "running", "wait": "running", "loose": "cancelled",
    }  # fmt: skip
    assert "children_cancelled" in await driver.kinds(run)


async def test_a_run_that_fails_cancels_its_children_and_waits_for_those_it_must(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start()
    children = await children_of(driver, run)
    await driver.fail(await driver.acquire(run, "own"), ErrorClass.PERMANENT)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    assert await driver.statuses(run) == {
        "cancel": "cancelled", "abandon": "cancelled", "wait": "cancelled", "loose": "completed",
        "own": "failed",
    }  # fmt: skip
    assert (await statuses(driver, children))["cancel"] == "cancelled"
    assert (await statuses(driver, children))["loose"] == "running"
    await complete(child, children["wait"])
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    await driver.settle()
    assert await statuses(driver, children) == {
        "cancel": "cancelled", "abandon": "running", "wait": "completed", "loose": "cancelled",
    }  # fmt: skip


async def test_a_run_that_completes_cancels_the_children_it_did_not_wait_for(
    driver: Driver, child: Driver
) -> None:
    await child.publish({"work": TASK})
    call = {"workflow": child.workflow, "wait": False}
    await driver.publish(
        {"cancel": {"run": {**call, "on_parent_end": "cancel"}}, "abandon": {"run": call}}
    )
    run = await driver.start()
    children = await children_of(driver, run)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert await statuses(driver, children) == {"cancel": "cancelled", "abandon": "running"}


async def test_a_run_completes_only_after_a_child_that_its_end_waits_for(
    driver: Driver, child: Driver
) -> None:
    await child.publish({"work": TASK})
    call = {"workflow": child.workflow, "wait": False, "on_parent_end": "wait"}
    await driver.publish({"call": {"run": call}, "next": {"needs": ["call"], "transform": 1}})
    run = await driver.start()
    children = await children_of(driver, run)
    assert await driver.statuses(run) == {"call": "completed", "next": "completed"}
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    assert await driver.engine.no_way_forward() == []
    await child.fail(await child.acquire(children["call"], "work"), ErrorClass.PERMANENT)
    assert await driver.engine.no_way_forward() == []
    await driver.settle()
    state = await driver.engine.run(run)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"next":1}')


@pytest.mark.parametrize("way", ["cancel", "finish"])
async def test_what_closes_a_run_at_once_leaves_a_child_with_the_rule_wait_alone(
    driver: Driver, child: Driver, way: str
) -> None:
    await child.publish({"work": TASK})
    call = {"workflow": child.workflow, "on_parent_end": "wait"}
    await driver.publish(
        {"call": {"run": call}, "own": TASK, "end": {"needs": ["own"], "finish": {}}}
    )
    run = await driver.start()
    children = await children_of(driver, run)
    if way == "cancel":
        await driver.submit(run, CancelRun())
    else:
        await driver.succeed(await driver.acquire(run, "own"))
    assert (await driver.engine.run(run)).status is not RunStatus.RUNNING
    await driver.settle()
    assert (await driver.step(run, "call")).status is StepStatus.CANCELLED
    assert await statuses(driver, children) == {"call": "running"}
    await complete(child, children["call"])
    assert (await driver.step(run, "call")).status is StepStatus.CANCELLED


async def test_a_cancel_reaches_the_children_of_children_f037(
    driver: Driver, child: Driver, engine: Engine
) -> None:
    middle = Driver(engine)
    await child.publish({"work": TASK})
    await middle.publish({"call": {"run": {"workflow": child.workflow}}})
    await driver.publish({"call": {"run": {"workflow": middle.workflow}}})
    run = await driver.start()
    below = (await children_of(driver, run))["call"]
    lowest = (await children_of(middle, below))["call"]
    await driver.submit(run, CancelRun())
    await driver.settle()
    assert (await engine.run(below)).status is RunStatus.CANCELLED
    assert (await engine.run(lowest)).status is RunStatus.CANCELLED


async def test_cancel_run_cancels_a_run_of_the_org_and_goes_on(
    driver: Driver, child: Driver
) -> None:
    await child.publish({"work": TASK})
    other = await child.start()
    await driver.publish(
        {"stop": {"cancel_run": {"run": "${input.run}", "reason": "for ${input.why}"}}}
    )
    run = await driver.start(f'{{"run": "{other}", "why": "reasons"}}'.encode())
    assert (await driver.step(run, "stop")).output == b"null"
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert (await driver.engine.run(other)).status is RunStatus.RUNNING
    await driver.settle()
    assert (await driver.engine.run(other)).status is RunStatus.CANCELLED


async def test_cancel_run_never_touches_a_run_of_another_org(driver: Driver, rival: Driver) -> None:
    await rival.publish({"work": TASK})
    other = await rival.start()
    await driver.publish({"stop": {"cancel_run": {"run": "${input.run}"}}})
    await driver.start(f'{{"run": "{other}"}}'.encode())
    await driver.settle()
    assert (await rival.engine.run(other)).status is RunStatus.RUNNING
    assert await driver.engine.timers() == []


async def test_cancel_run_of_no_run_and_of_an_ended_one_changes_nothing(
    driver: Driver, child: Driver
) -> None:
    await child.publish({"one": {"transform": 1}})
    ended = await child.start()
    await driver.publish({"stop": {"cancel_run": {"run": "${input.run}"}}})
    for run in (ended, uuid4()):
        await driver.start(f'{{"run": "{run}"}}'.encode())
    await driver.settle()
    assert (await driver.engine.run(ended)).status is RunStatus.COMPLETED
    assert await driver.engine.timers() == []


@pytest.mark.parametrize("given", ['"no id"', "7", '"\\u0000"'])
async def test_cancel_run_of_a_text_that_is_no_id_fails_by_name(driver: Driver, given: str) -> None:
    await driver.publish({"stop": {"cancel_run": {"run": "${input.run}"}}})
    run = await driver.start(f'{{"run": {given}}}'.encode())
    step = await driver.step(run, "stop")
    assert step.error is not None
    assert step.error.code == "RUN_ID_INVALID"


async def test_a_whole_that_stops_cancels_the_children_inside_of_it(
    driver: Driver, child: Driver
) -> None:
    await child.publish({"work": TASK})
    inside = {"call": {"run": {"workflow": child.workflow}}, "own": TASK}
    await driver.publish(
        {
            "whole": {"group": {"nodes": inside}, "on_failure": [{"output": "caught"}]},
            "last": {"needs": ["whole"], **TASK},
        }
    )
    run = await driver.start()
    children = await children_of(driver, run)
    await driver.fail(await driver.acquire(run, "whole[0].own"), ErrorClass.PERMANENT)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    assert await statuses(driver, children) == {"call": "cancelled"}
    assert (await driver.step(run, "last")).status is StepStatus.QUEUED


async def test_every_item_of_a_for_each_may_have_a_child(driver: Driver, child: Driver) -> None:
    double = {"double": {"transform": "${input.n * 2}"}}
    await child.publish(double, output="${nodes.double.output}")
    call = {"run": {"workflow": child.workflow, "input": {"n": "${item}"}}}
    await driver.publish({"each": {"for_each": {"in": "${input}", "nodes": {"call": call}}}})
    run = await driver.start(b"[1, 2, 3]")
    await driver.settle()
    outputs = [(await driver.step(run, f"each[{n}].call")).output for n in range(3)]
    assert outputs == [b"2", b"4", b"6"]
    assert len({one.run_id for one in await driver.engine.children(run)}) == 3
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
