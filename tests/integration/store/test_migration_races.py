"""A migration beside what else happens to its runs, each interleaving made certain (R1, p5)."""

import asyncio
from uuid import UUID, uuid4

import asyncpg
import pytest
from perdure_machine.events import Event, FireTimer
from perdure_machine.migration import Plan
from perdure_machine.replies import Applied
from perdure_runtime.fail_points import FailPointHit, Pause, Raise, arm
from perdure_store import run_migrations
from perdure_store.apply.batch import OrgEvent, RunEvents, Skipped
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver, success
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

TASK = {"task": {"handler": "x"}}
OLD = {"a": TASK, "hold": TASK}
NEW = {"first": TASK, "hold": TASK, "b": {**TASK, "needs": ["first"]}}
COMMIT = "store.commit_events"
CURSOR = "store.commit_migration_cursor"


async def begin(port: PostgresPort, driver: Driver, nodes: dict[str, str]) -> UUID:
    """Ask for a migration from version 1 to 2; return its id."""
    from_id, to_id = await run_migrations.resolve(port.coordinator, ORG, driver.workflow, [1, 2])
    plan = Plan(uuid4(), from_id, 1, to_id, 2, nodes)
    await run_migrations.create(
        port.coordinator, run_migrations.Asked(ORG, driver.workflow, plan, None)
    )
    return plan.migration_id


async def timer_of(port: PostgresPort, receiver: UUID) -> int | None:
    """Return the event that waits for a run or a migration."""
    found: int | None = await port.admin.fetchval(
        "SELECT timer_id FROM timers WHERE run_id = $1 AND kind = 'migrate'", receiver
    )
    return found


async def apply(
    port: PostgresPort, connection: asyncpg.Connection, run: UUID, event: Event
) -> object:
    batch = [RunEvents(run, (OrgEvent(ORG, event),))]
    (answers,) = await port.applier.apply(connection, batch, wait=True)
    assert not isinstance(answers, Skipped)
    return answers[0]


async def held_run(port: PostgresPort, driver: Driver) -> tuple[UUID, Event, FireTimer]:
    """Return a run whose migration waits beside the report of its step: both events."""
    await driver.publish(OLD)
    run = await driver.start()
    granted = await driver.acquire(run, "a")
    await driver.publish(NEW)
    migration = await begin(port, driver, {"a": "first"})
    cursor = await timer_of(port, migration)
    assert cursor is not None
    await run_migrations.go_on(port.coordinator, ORG, migration, cursor)
    timer = await timer_of(port, run)
    assert timer is not None
    return run, success(granted, b'"x"'), FireTimer(timer)


async def test_r1_a_report_that_waits_for_a_migration_goes_to_the_renamed_node(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    run, report, fire = await held_run(port, driver)
    first, second = [await database.connect("coordinator") for _ in range(2)]
    with arm(COMMIT, "before", pause := Pause()):
        moving = asyncio.create_task(apply(port, first, run, fire))
        await pause.reached.wait()
        reporting = asyncio.create_task(apply(port, second, run, report))
        await wait_until_blocked(first)
        pause.release.set()
        assert await moving == Applied()
        assert await reporting == Applied()
    assert await driver.statuses(run) == {"first": "completed", "hold": "queued", "b": "queued"}


async def test_r1_a_migration_that_waits_for_a_report_finds_the_node_ended(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    run, report, fire = await held_run(port, driver)
    first, second = [await database.connect("coordinator") for _ in range(2)]
    with arm(COMMIT, "before", pause := Pause()):
        reporting = asyncio.create_task(apply(port, first, run, report))
        await pause.reached.wait()
        moving = asyncio.create_task(apply(port, second, run, fire))
        await wait_until_blocked(first)
        pause.release.set()
        assert await reporting == Applied()
        assert await moving == Applied()
    assert await driver.statuses(run) == {"first": "completed", "hold": "queued", "b": "queued"}


async def many(port: PostgresPort, driver: Driver, count: int) -> UUID:
    """Return a migration of many runs, which are copies of one."""
    await driver.publish(OLD)
    run = await driver.start()
    await driver.publish({**OLD, "c": TASK})
    await port.admin.execute(
        """
        INSERT INTO runs (run_id, org, workflow_id, workflow, workflow_version, input, created_at)
        SELECT (left(run_id::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, org, workflow_id,
               workflow, workflow_version, input, created_at
          FROM runs, generate_series(1, $2) AS n WHERE run_id = $1
        """,
        run,
        count - 1,
    )
    return await begin(port, driver, {})


async def sent(port: PostgresPort) -> int:
    """Return how many runs have their event."""
    count: int = await port.admin.fetchval(
        "SELECT count(*) FROM timers JOIN runs USING (run_id) WHERE kind = 'migrate'"
    )
    return count


async def send_part(port: PostgresPort, migration: UUID) -> bool:
    """Deliver the migration's own event; return whether there was one."""
    timer = await timer_of(port, migration)
    return timer is not None and await run_migrations.go_on(port.coordinator, ORG, migration, timer)


async def test_p5_a_migration_sends_at_most_500_runs_their_event_at_a_time(
    driver: Driver, port: PostgresPort
) -> None:
    migration = await many(port, driver, 1_001)
    counts = []
    while await send_part(port, migration):
        counts.append(await sent(port))
    assert counts == [500, 1_000, 1_001]
    found = await run_migrations.read(port.admin, ORG, migration)
    assert found is not None
    assert (found.selected, found.pending, found.all_sent_at is not None) == (1_001, 1_001, True)


@pytest.mark.parametrize("side", ["before", "after"])
async def test_p5_a_part_that_is_cut_off_is_sent_again_whole(
    driver: Driver, port: PostgresPort, side: str
) -> None:
    migration = await many(port, driver, 501)
    with arm(CURSOR, side, Raise()), pytest.raises(FailPointHit):
        await send_part(port, migration)
    while await send_part(port, migration):
        pass
    assert await sent(port) == 501


async def test_r5_p5_a_part_is_sent_once_however_often_it_is_delivered(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    migration = await many(port, driver, 501)
    timer = await timer_of(port, migration)
    assert timer is not None
    rivals = [await database.connect("coordinator") for _ in range(3)]
    both = [run_migrations.go_on(one, ORG, migration, timer) for one in rivals]
    assert await asyncio.gather(*both) == [True, True, True]
    assert await sent(port) == 500
    assert await run_migrations.go_on(port.coordinator, ORG, migration, timer)
    assert await sent(port) == 500


async def test_p5_asking_again_sets_the_event_that_was_lost(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(OLD)
    await driver.start()
    await driver.publish({**OLD, "c": TASK})
    from_id, to_id = await run_migrations.resolve(port.coordinator, ORG, driver.workflow, [1, 2])
    asked = run_migrations.Asked(ORG, driver.workflow, Plan(uuid4(), from_id, 1, to_id, 2), None)
    await run_migrations.create(port.coordinator, asked)
    await port.admin.execute("DELETE FROM timers")
    for _ in range(2):
        await run_migrations.create(port.coordinator, asked)
    assert await send_part(port, asked.plan.migration_id)
    assert await sent(port) == 1


async def test_another_orgs_migration_is_not_gone_on_with(
    driver: Driver, port: PostgresPort
) -> None:
    migration = await many(port, driver, 1)
    timer = await timer_of(port, migration)
    assert timer is not None
    assert not await run_migrations.go_on(port.coordinator, "rival", migration, timer)
    assert await run_migrations.read(port.admin, "rival", migration) is None
    assert await sent(port) == 0
