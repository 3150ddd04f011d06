"""What only the store does: plans, rows of several runs, definitions of other releases, times."""

import json

import pytest
from perdure_machine.events import Acquire, CancelRun
from perdure_machine.memory import DEFAULT_LANES
from perdure_machine.replies import Applied, Cancelled
from perdure_machine.states import RunStatus
from perdure_runtime.errors import NotFound
from perdure_store.apply.batch import OrgEvent, RunEvents
from perdure_store.lanes import load_lanes
from perdure_testkit.engines.driver import ORG, Driver, failure, new_lease, success
from perdure_testkit.engines.port import StartOf
from perdure_testkit.engines.postgres import PostgresPort

TASK = {"a": {"task": {"handler": "x"}}}
JOIN = {
    "a": {"task": {"handler": "x"}},
    "b": {"transform": "${input.n}"},
    "j": {"transform": ["${nodes.a.output}", "${nodes.b.output}"], "needs": ["a", "b"]},
}


async def test_statements_work_under_generic_plans(driver: Driver, port: PostgresPort) -> None:
    """The server may choose one after five executions; here it is made to from the first."""
    await port.coordinator.execute("SET plan_cache_mode = force_generic_plan")
    await driver.publish(JOIN)
    for number in range(12):
        run = await driver.start(b'{"n": %d}' % number)
        await driver.fail(await driver.acquire(run, "a"), retry_after=0)
        await driver.settle()
        await driver.succeed(await driver.acquire(run, "a"), b'"a"')
        assert (await port.run(run)).output == b'{"j":["a",%d]}' % number
    plans = await port.coordinator.fetchval(
        "SELECT max(generic_plans) FROM pg_prepared_statements WHERE statement LIKE '%run_update%'"
    )
    assert plans > 10


async def test_the_lease_of_a_first_step_is_not_planned_anew_each_time(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish({"a": {"task": {"handler": "h"}}})
    for _ in range(12):
        await driver.acquire(await driver.start(), "a")
    planned = await port.coordinator.fetchval(
        "SELECT custom_plans FROM pg_prepared_statements WHERE statement LIKE '-- plain.take_up%'"
    )
    assert planned == 5  # what the server tries before it compares


async def test_a_batch_of_runs_on_other_definitions_is_written_at_once(
    driver: Driver, port: PostgresPort
) -> None:
    other = Driver(port)
    await driver.publish(JOIN)
    await other.publish({"p": {"http": {"url": "https://x.example", "method": "GET"}}})
    first, second = await driver.start(b'{"n": 1}'), await other.start()
    third = await driver.start(b'{"n": 2}')
    tries = [(await driver.acquire(first, "a")), await other.acquire(second, "p")]
    batch = [
        RunEvents(first, (OrgEvent(ORG, success(tries[0], b"1")),)),
        RunEvents(second, (OrgEvent(ORG, failure(tries[1])), OrgEvent(ORG, CancelRun()))),
        RunEvents(third, (OrgEvent("rival", CancelRun()), OrgEvent(ORG, CancelRun()))),
    ]
    answers = await port.applier.apply(port.coordinator, batch, wait=True)
    assert answers[0] == (Applied(),)
    assert answers[1] == (Applied(), Cancelled(changed=True))
    assert isinstance(answers[2], tuple)
    assert isinstance(answers[2][0], NotFound)
    assert answers[2][1] == Cancelled(changed=True)
    assert (await port.run(first)).output == b'{"j":[1,1]}'
    assert len({change.run.run.run_id for change in port.committed[-3:]}) == 3
    await driver.settle()


async def test_f059_a_definition_published_by_a_release_that_loaded_less_runs_all_the_same(
    driver: Driver, port: PostgresPort
) -> None:
    """What is loaded is found at publish and stored; a later release may expect more."""
    document = json.dumps({"name": "old", "nodes": JOIN}).encode()
    workflow_id = await port.admin.fetchval(
        "INSERT INTO workflows (org, name, version, digest, document)"
        " VALUES ($1, 'old', 1, sha256(''), $2) RETURNING workflow_id",
        ORG, document,
    )  # fmt: skip
    await port.admin.execute(
        "INSERT INTO workflow_nodes (workflow_id, node, steps, outputs, input)"
        " SELECT $1, node, ARRAY['a', 'j'], ARRAY[]::text[], false"
        "   FROM unnest(ARRAY['a', 'b']) AS node",
        workflow_id,
    )
    started = await port.start(ORG, StartOf("old", b'{"n": 1}'))
    await driver.succeed(await driver.acquire(started.run_id, "a"), b'"a"')
    state = await port.run(started.run_id)
    assert (state.status, state.output) == (RunStatus.COMPLETED, b'{"j":["a",1]}')


async def test_an_attempt_keeps_when_it_began_and_ended(driver: Driver, port: PostgresPort) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    before = await port.admin.fetchval("SELECT clock_timestamp()")
    granted = await driver.acquire(run, "a")
    between = await port.admin.fetchval("SELECT clock_timestamp()")
    await driver.succeed(granted)
    row = await port.admin.fetchrow("SELECT started_at, ended_at FROM attempts")
    assert row is not None
    assert before < row["started_at"] < between < row["ended_at"]


async def test_an_event_that_changes_nothing_writes_nothing(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(TASK)
    run = await driver.start()
    await driver.acquire(run, "a")
    port.committed.clear()
    await driver.submit(run, Acquire(1, new_lease(), "late"))
    assert port.committed == []


async def test_an_age_limit_is_counted_from_the_start_by_the_databases_clock(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(TASK, limits={"age": "2h"})
    await driver.start()
    seconds = await port.admin.fetchval("SELECT extract(epoch FROM age_at - created_at) FROM runs")
    assert float(seconds) == pytest.approx(7200)


async def test_the_lanes_in_memory_are_those_of_the_first_migration(port: PostgresPort) -> None:
    assert dict(DEFAULT_LANES) == await load_lanes(port.admin)
