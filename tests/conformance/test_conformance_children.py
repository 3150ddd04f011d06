"""Child runs: started once, and ending the node that waits for them (protocol p5)."""

import json
from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, ChildStarted, ExpireRun, FireTimer, TellOfChild
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, ChildUnwanted, ChildWanted, Stale
from perdure_machine.start_keys import CHILD_PREFIX
from perdure_machine.states import ChildStatus, RunStatus, StepStatus, TimerKind
from perdure_machine.view import NodeError
from perdure_testkit.engines.calling import asked, start_timer
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.port import Engine

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {"task": {"handler": "x", "input": "${input}"}}
SPECIAL = rb'{ "big":18446744073709551616, "nul":"\u0000", "half":"\ud800", "z":1, "a":2 }'


@pytest.fixture
def child(engine: Engine) -> Driver:
    """Somebody who drives the runs of the child's workflow."""
    return Driver(engine)


async def publish(parent: Driver, child: Driver, **call: object) -> None:
    """Publish a child of one task, and a parent that calls it."""
    await child.publish({"work": TASK}, output="${nodes.work.output}", limits={"age": "1d"})
    run = {"workflow": child.workflow, "input": "${input}", **call}
    nodes = {
        "call": {"run": run},
        "after": {"needs": ["call"], "transform": "${nodes.call.output}"},
    }
    await parent.publish(nodes, output="${nodes.call.output}")


async def child_of(parent: Driver, run: UUID) -> UUID:
    """Let what is due happen; return the child that it led to."""
    await parent.settle()
    (child,) = await parent.engine.children(run)
    assert child.run_id is not None
    return child.run_id


async def error_of(parent: Driver, run: UUID, node: str = "call") -> NodeError:
    """Return the error of a failed node."""
    step = await parent.step(run, node)
    assert step.status is StepStatus.FAILED
    assert step.error is not None
    return step.error


async def test_a_node_completes_with_its_childs_output_byte_for_byte_r12(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start(SPECIAL)
    of_child = await child_of(driver, run)
    granted = await child.acquire(of_child, "work")
    assert granted.step.input == SPECIAL
    await child.succeed(granted, SPECIAL)
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert (await driver.engine.run(run)).output == SPECIAL


async def test_a_child_is_a_run_of_its_own_below_its_parent(driver: Driver, child: Driver) -> None:
    await publish(driver, child)
    run = await driver.start(priority=7)
    state = await driver.engine.run(await child_of(driver, run))
    assert state.parent is not None
    assert (state.parent.run_id, state.parent.step, state.parent.told) == (run, 1, True)
    assert (state.depth, state.priority, state.tags) == (1, 7, {})
    assert (state.start_key or "").startswith(CHILD_PREFIX)
    assert await driver.statuses(run) == {"call": "waiting"}


async def test_a_node_fails_with_its_childs_error_whose_details_name_the_child(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start()
    of_child = await child_of(driver, run)
    await child.fail(await child.acquire(of_child, "work"), ErrorClass.PERMANENT, "GONE")
    await driver.settle()
    error = await error_of(driver, run)
    assert (error.category, error.code, error.message, error.node) == (
        "permanent", "GONE", "it broke", "call",
    )  # fmt: skip
    assert json.loads(error.details or b"") == {
        "run_id": str(of_child), "workflow": child.workflow, "version": 1, "status": "failed",
        "node": "work", "details": None,
    }  # fmt: skip
    assert (await driver.step(run, "call")).failures == 1
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_childs_failure_is_caught_like_any_other(driver: Driver, child: Driver) -> None:
    await publish(driver, child)
    handler = {"when": "error.code == 'GONE'", "output": "${error.details.workflow}"}
    call = {"run": {"workflow": child.workflow}, "on_failure": [handler]}
    await driver.publish({"call": call})
    run = await driver.start()
    of_child = await child_of(driver, run)
    await child.fail(await child.acquire(of_child, "work"), ErrorClass.PERMANENT, "GONE")
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED
    assert (await driver.step(run, "call")).output == json.dumps(child.workflow).encode()


@pytest.mark.parametrize(
    ("event", "code", "status"),
    [
        (CancelRun("enough"), "CHILD_CANCELLED", "cancelled"),
        (ExpireRun(), "RUN_TOO_OLD", "timed_out"),
    ],
)
async def test_a_child_that_was_closed_fails_its_node(
    driver: Driver, child: Driver, event: CancelRun | ExpireRun, code: str, status: str
) -> None:
    await publish(driver, child)
    run = await driver.start()
    below = await child_of(driver, run)
    await driver.engine.advance(90_000)
    await child.submit(below, event)
    await driver.settle()
    error = await error_of(driver, run)
    assert error.code == code
    assert json.loads(error.details or b"")["status"] == status


async def test_without_wait_a_node_completes_once_its_child_is_started(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child, wait=False)
    run = await driver.start()
    of_child = await child_of(driver, run)
    state = await driver.engine.run(run)
    assert state.status is RunStatus.COMPLETED
    assert json.loads(state.output or b"") == {
        "run_id": str(of_child), "workflow": child.workflow, "version": 1,
    }  # fmt: skip
    await child.fail(await child.acquire(of_child, "work"), ErrorClass.PERMANENT)
    assert await driver.engine.timers() == []  # an abandoned child tells nobody


async def test_a_child_runs_on_the_version_asked_for_else_on_the_latest(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    await child.publish({"other": TASK})
    call = {"workflow": child.workflow, "wait": False}
    nodes = {"old": {"run": {**call, "version": "${input.version}"}}, "new": {"run": call}}
    await driver.publish(nodes)
    run = await driver.start(b'{"version": 1}')
    await driver.settle()
    versions = {
        node: json.loads((await driver.step(run, node)).output or b"")["version"] for node in nodes
    }
    assert versions == {"old": 1, "new": 2}


@pytest.mark.parametrize(
    ("call", "payload"),
    [
        ({"workflow": "no-such-flow"}, b"{}"),
        ({"workflow": "${input.name}"}, b'{"name": "not a name"}'),
        ({"workflow": "${input.name}"}, b'{"name": "with-\\u0000"}'),
        ({"version": 9}, b"{}"),
        ({"version": "${input.version}"}, b'{"version": 0}'),
        ({"version": "${input.version}"}, b'{"version": "1"}'),
        ({"version": "${input.version}"}, b'{"version": 4294967296}'),
    ],
)
async def test_a_workflow_that_there_is_not_fails_the_node_by_name(
    driver: Driver, child: Driver, call: dict[str, object], payload: bytes
) -> None:
    await publish(driver, child, **call)
    run = await driver.start(payload)
    await driver.settle()
    assert (await error_of(driver, run)).code == "WORKFLOW_NOT_FOUND"
    assert (await driver.engine.run(run)).status is RunStatus.FAILED


async def test_a_workflow_of_another_org_is_not_there(driver: Driver, rival: Driver) -> None:
    await publish(driver, rival)
    run = await driver.start()
    await driver.settle()
    assert (await error_of(driver, run)).code == "WORKFLOW_NOT_FOUND"


async def test_an_input_that_the_child_refuses_fails_the_node_by_field(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    await child.publish({"work": TASK}, input=schema)
    run = await driver.start(b'{"n": "seven"}')
    await driver.settle()
    error = await error_of(driver, run)
    assert (error.category, error.code) == ("permanent", "FIELD_INVALID")
    (violation,) = json.loads(error.details or b"")["violations"]
    assert violation["field"] == "input.n"


async def test_a_start_that_is_delivered_twice_starts_one_run_r5(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start()
    timer = await start_timer(driver)
    wanted = [await driver.submit(run, FireTimer(timer.timer_id)) for _ in range(2)]
    assert isinstance(wanted[0], ChildWanted)
    assert wanted[0] == wanted[1]
    first = await driver.engine.answer(driver.org, wanted[0])
    again = await driver.engine.answer(driver.org, wanted[0])
    assert isinstance(first, ChildStarted)
    assert first == again
    told = TellOfChild(timer.timer_id, first)
    assert await driver.submit(run, told) == Applied()
    assert await driver.submit(run, told) == Stale()
    assert await driver.submit(run, FireTimer(timer.timer_id)) == Stale()
    assert await child_of(driver, run) == first.run_id


async def test_a_child_that_ended_before_its_parent_knew_of_it_ends_the_node_f122(
    driver: Driver, child: Driver
) -> None:
    """Whoever started it died before telling; the stored failure is told, and as a failure."""
    await publish(driver, child)
    run = await driver.start()
    asking = await asked(driver, run)
    started = await asking.begun()
    await child.fail(await child.acquire(started.run_id, "work"), ErrorClass.PERMANENT, "GONE")
    (end,) = [t for t in await driver.engine.timers() if t.kind is TimerKind.CHILD_ENDED]
    await driver.engine.fire(end)
    assert (await error_of(driver, run)).code == "GONE"
    await driver.settle()
    (told,) = await driver.engine.children(run)
    assert (told.run_id, told.status) == (started.run_id, ChildStatus.ENDED)
    assert (await driver.engine.run(run)).status is RunStatus.FAILED
    assert await driver.engine.timers() == []


async def test_without_wait_a_child_that_ended_first_still_completes_the_node(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child, wait=False, on_parent_end="cancel")
    run = await driver.start()
    asking = await asked(driver, run)
    started = await asking.begun()
    await child.fail(await child.acquire(started.run_id, "work"), ErrorClass.PERMANENT)
    await driver.settle()
    output = json.loads((await driver.step(run, "call")).output or b"")
    assert output["run_id"] == str(started.run_id)
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_parent_cancelled_before_its_child_is_started_never_starts_it(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start()
    asking = await asked(driver, run)
    await driver.submit(run, CancelRun())
    await driver.settle()
    # Somebody who was slow to start it finds the key taken.
    late = await driver.engine.answer(driver.org, asking.wanted)
    assert not isinstance(late, ChildStarted)
    (forgone,) = await driver.engine.children(run)
    assert (forgone.run_id, forgone.status) == (None, ChildStatus.LEFT)
    assert await driver.engine.timers() == []


async def test_a_parent_cancelled_while_its_child_starts_has_it_cancelled_f062(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start()
    asking = await asked(driver, run)
    await driver.submit(run, CancelRun())
    started = await asking.begun()
    await driver.submit(run, TellOfChild(asking.timer.timer_id, started))
    await driver.settle()
    assert (await driver.engine.run(started.run_id)).status is RunStatus.CANCELLED


async def test_a_child_started_by_somebody_who_died_is_found_and_cancelled(
    driver: Driver, child: Driver
) -> None:
    await publish(driver, child)
    run = await driver.start()
    asking = await asked(driver, run)
    started = await asking.begun()
    await driver.submit(run, CancelRun())
    assert isinstance(await asking.ask_again(), ChildUnwanted)
    await driver.settle()
    assert (await driver.engine.run(started.run_id)).status is RunStatus.CANCELLED
    assert await driver.engine.timers() == []


async def test_runs_are_nested_fifty_deep_at_most(driver: Driver) -> None:
    """A workflow that starts itself ends by a named error, as do all the runs above it."""
    await driver.publish({"again": {"run": {"workflow": driver.workflow}}})
    run = await driver.start()
    depth = 0
    while (await driver.engine.run(run)).status is RunStatus.RUNNING:
        await driver.fire_due()
    below = (await driver.engine.children(run))[0].run_id
    while below is not None:
        depth += 1
        children = await driver.engine.children(below)
        deepest, below = below, children[0].run_id if children else None
    error = await error_of(driver, run, "again")
    assert depth == 50
    assert (await error_of(driver, deepest, "again")).code == error.code == "CHILD_TOO_DEEP"


async def test_the_word_of_a_childs_end_outlives_the_step_that_it_is_for(
    driver: Driver, child: Driver
) -> None:
    """The node completes with the word of the start; the run's end still waits for the other."""
    await publish(driver, child, wait=False, on_parent_end="wait")
    run = await driver.start()
    asking = await asked(driver, run)
    started = await asking.begun()
    await child.submit(started.run_id, CancelRun())
    await driver.submit(run, TellOfChild(asking.timer.timer_id, started))
    assert (await driver.step(run, "call")).status is StepStatus.COMPLETED
    assert (await driver.engine.run(run)).status is RunStatus.RUNNING
    await driver.settle()
    assert (await driver.engine.run(run)).status is RunStatus.COMPLETED


async def test_a_node_starts_a_job_of_a_type_and_hears_its_output(
    driver: Driver, child: Driver
) -> None:
    job = Driver(child.engine, child.org, f"job:{child.workflow}")
    await publish(driver, job)
    run = await driver.start(SPECIAL)
    granted = await job.acquire(await child_of(driver, run), "work")
    await job.succeed(granted, SPECIAL)
    await driver.settle()
    assert (await driver.engine.run(run)).output == SPECIAL
