"""A deadline against everything that may end the node first: made certain by locks."""

import asyncio
from uuid import UUID

import asyncpg
import pytest
from perdure_machine.events import Event, FireTimer
from perdure_machine.replies import Applied, Granted, Stale
from perdure_machine.states import RunStatus, TimerKind
from perdure_runtime.fail_points import Pause, arm
from perdure_store.apply.batch import Answers, OrgEvent, RunEvents, Skipped
from perdure_store.apply.write import GuardFailed
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver, success
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

COMMIT = "store.commit_events"
LIMITED = {"a": {"task": {"handler": "x"}, "deadline": "60s"}}


async def apply(
    port: PostgresPort, connection: asyncpg.Connection, run: UUID, *these: Event
) -> list[Answers | Skipped]:
    batch = [RunEvents(run, tuple(OrgEvent(ORG, event) for event in these))]
    return await port.applier.apply(connection, batch, wait=True)


async def due_with_report(driver: Driver, port: PostgresPort) -> tuple[UUID, FireTimer, Granted]:
    """Return a run whose step is held past its deadline, with both events that may end it."""
    await driver.publish(LIMITED)
    run = await driver.start()
    held = await driver.acquire(run, "a")
    await port.advance(61)
    (timer,) = [one for one in await port.timers() if one.kind is TimerKind.DEADLINE]
    return run, FireTimer(timer.timer_id), held


@pytest.mark.parametrize("report_first", [True, False])
async def test_r6_between_a_report_and_the_deadline_there_is_one_winner(
    driver: Driver, port: PostgresPort, database: Database, report_first: bool
) -> None:
    run, fire, held = await due_with_report(driver, port)
    events: list[Event] = [success(held), fire]
    first, second = events if report_first else reversed(events)
    winner, loser = [await database.connect("coordinator") for _ in range(2)]
    with arm(COMMIT, "before", pause := Pause()):
        earlier = asyncio.create_task(apply(port, winner, run, first))
        await pause.reached.wait()
        later = asyncio.create_task(apply(port, loser, run, second))
        await wait_until_blocked(winner)
        pause.release.set()
        assert await earlier == [(Applied(),)]
        assert await later == [(Stale(),)]
    expected = RunStatus.COMPLETED if report_first else RunStatus.FAILED
    assert (await port.run(run)).status is expected
    assert list(await port.timers()) == []
    assert len(await port.attempts(run)) == 1


async def test_r6_a_write_that_ends_a_step_at_its_deadline_finds_it_due(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """The timer is moved after it was read, which only a fault could do: nothing is taken away."""
    run, fire, _ = await due_with_report(driver, port)
    mover = await database.connect()
    moving = mover.transaction()
    await moving.start()
    await mover.execute("UPDATE timers SET due_at = due_at + interval '1 h'")
    applying = asyncio.create_task(apply(port, port.coordinator, run, fire))
    await wait_until_blocked(mover)
    await moving.commit()
    with pytest.raises(GuardFailed, match="timers"):
        await applying
    assert await driver.statuses(run) == {"a": "running"}
