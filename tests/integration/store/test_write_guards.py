"""The write proves what the decision saw: each guard alone refuses all of it (R1, R6)."""

import pytest
from perdure_machine.changes import Changes, collapse
from perdure_machine.decide import decide
from perdure_machine.definition.parse import parse
from perdure_machine.events import Event, FireTimer
from perdure_machine.memory import DEFAULT_LANES
from perdure_runtime.fail_points import declare
from perdure_store.apply.batch import OrgEvent, RunEvents
from perdure_store.apply.load import load_views, lock_runs
from perdure_store.apply.write import GuardFailed, write_changes
from perdure_store.transaction import transaction
from perdure_testkit.engines.driver import ORG, Driver, success
from perdure_testkit.engines.postgres import PostgresPort

COMMIT = declare("tests.commit_guarded")
CALL = {"http": {"url": "https://x.example", "method": "PUT", "effect": "provider"}}


async def decided(port: PostgresPort, driver: Driver, event: Event) -> Changes:
    """Return what the event changes, decided on the rows as they are now."""
    run_id = await port.admin.fetchval("SELECT run_id FROM runs")
    document = await port.admin.fetchval("SELECT document FROM workflows")
    definition = parse(document, known_lanes=frozenset(DEFAULT_LANES))
    batch = [RunEvents(run_id, (OrgEvent(ORG, event),))]
    async with transaction(port.coordinator, COMMIT):
        runs = await lock_runs(port.coordinator, [run_id], wait=True)
        definitions = {runs[run_id].workflow_id: definition}
        views = await load_views(port.coordinator, runs, batch, definitions)
    view = views[run_id]
    changes = collapse(view, decide(definition, DEFAULT_LANES, view, event).actions)
    assert changes is not None
    return changes


async def write(port: PostgresPort, changes: Changes) -> None:
    async with transaction(port.coordinator, COMMIT):
        await write_changes(port.coordinator, [changes], retention=1)


@pytest.mark.parametrize(
    ("guard", "sabotage"),
    [
        ("runs", "UPDATE runs SET revision = revision + 1"),
        ("steps", "UPDATE steps SET status = 'queued', lease_expires_at = NULL"),
        ("steps", "UPDATE steps SET fence = fence + 1"),
        ("steps", "UPDATE steps SET lease_id = gen_random_uuid()"),
        ("effects", "DELETE FROM effects"),
    ],
)
@pytest.mark.breaks_r10("the rows are changed behind the machine's back")
async def test_r6_a_report_is_refused_when_a_row_is_not_as_it_was_read(
    driver: Driver, port: PostgresPort, guard: str, sabotage: str
) -> None:
    await driver.publish({"a": CALL})
    changes = await decided(port, driver, success(await driver.acquire(await driver.start(), "a")))
    await port.admin.execute(sabotage)
    before = [dict(row) for row in await port.admin.fetch("SELECT * FROM runs, steps")]
    with pytest.raises(GuardFailed, match=guard):
        await write(port, changes)
    assert [dict(row) for row in await port.admin.fetch("SELECT * FROM runs, steps")] == before
    assert await port.admin.fetchval("SELECT count(*) FROM attempts") == 0


@pytest.mark.parametrize(
    "sabotage", ["DELETE FROM timers", "UPDATE timers SET due_at = due_at + interval '1 h'"]
)
@pytest.mark.breaks_r10("the timer is removed behind the machine's back")
async def test_p5_a_timer_that_is_not_due_any_more_is_not_delivered(
    driver: Driver, port: PostgresPort, sabotage: str
) -> None:
    await driver.publish({"a": {"wait": "1s"}})
    run = await driver.start()
    await port.advance(2)
    (timer,) = await port.timers()
    changes = await decided(port, driver, FireTimer(timer.timer_id))
    await port.admin.execute(sabotage)
    with pytest.raises(GuardFailed, match="timers"):
        await write(port, changes)
    assert await driver.statuses(run) == {"a": "waiting"}


async def test_a_write_that_finds_everything_as_it_was_read_is_made(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish({"a": CALL})
    run = await driver.start()
    changes = await decided(port, driver, success(await driver.acquire(run, "a")))
    await write(port, changes)
    assert await driver.statuses(run) == {"a": "completed"}
