"""A wait that plainly ends its run: the same rows as by a load, proved by run and timer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from perdure_machine.events import CancelRun, FireTimer, PauseRun
from perdure_machine.replies import Applied, Early, Stale
from perdure_runtime.fail_points import FailPointHit, Raise, arm
from perdure_store.apply import applier
from perdure_store.apply.batch import OrgEvent, RunEvents
from perdure_store.apply.waits import decide_waits
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.postgres import PostgresPort

from tests.integration.store.test_plain_runs_written import LOCK_RUN, rows_of, sent

WRITE = "store.write_hand_overs"
WAIT: dict[str, dict[str, Any]] = {"a": {"wait": "1h"}}
TIMERS = "SELECT timer_id FROM timers WHERE run_id = $1"
DUE = "UPDATE timers SET due_at = clock_timestamp() - interval '1 s'"
AHEAD = "UPDATE timers SET due_at = clock_timestamp() + interval '1 h'"


async def waiting(driver: Driver, port: PostgresPort, **asked: Any) -> tuple[UUID, RunEvents]:
    """A run whose last wait is over, and its timer's event."""
    run = await driver.start(**asked)
    await port.admin.execute(DUE)
    timer = await port.admin.fetchval(TIMERS, run)
    return run, RunEvents(run, (OrgEvent(ORG, FireTimer(timer)),))


async def at_once(port: PostgresPort, event: RunEvents) -> bool:
    return bool(await port.applier.apply_waits(port.coordinator, [event]))


async def as_any(port: PostgresPort, event: RunEvents) -> object:
    return await sent(port, event.run_id, event.events[0].event)


async def test_it_leaves_the_rows_that_a_load_and_a_decision_leave(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(WAIT, output={"of": "${run.version}", "is": "${nodes.a.output}"})
    plain, first = await waiting(driver, port, start_key="1", tags={"k": "v"})
    assert await as_any(port, first) == Applied()  # its definition is not known at first
    again, second = await waiting(driver, port, start_key="2", tags={"k": "v"})
    assert await at_once(port, second)
    assert await rows_of(port, plain) == await rows_of(port, again)
    assert await port.admin.fetchval("SELECT count(*) FROM timers") == 0


async def test_r5_what_was_delivered_already_is_stale(driver: Driver, port: PostgresPort) -> None:
    await driver.publish(WAIT)
    _, event = await known(driver, port)
    assert await at_once(port, event)
    assert not await at_once(port, event)
    assert await as_any(port, event) == Stale()


async def test_r7_a_timer_that_is_early_is_left(driver: Driver, port: PostgresPort) -> None:
    await driver.publish(WAIT)
    run, event = await known(driver, port)
    await port.admin.execute(AHEAD)
    assert not await at_once(port, event)
    assert isinstance(await as_any(port, event), Early)
    await port.submit(ORG, run, CancelRun())


async def cancelled(port: PostgresPort, run: UUID) -> None:
    await port.submit(ORG, run, CancelRun())


async def paused(port: PostgresPort, run: UUID) -> None:
    await port.submit(ORG, run, PauseRun("", ""))


async def moved_ahead(port: PostgresPort, _run: UUID) -> None:
    await port.admin.execute(AHEAD)


@pytest.mark.parametrize("move", [cancelled, paused, moved_ahead])
async def test_r1_r7_what_moved_after_it_was_read_is_not_written(
    driver: Driver,
    port: PostgresPort,
    monkeypatch: pytest.MonkeyPatch,
    move: Callable[[PostgresPort, UUID], Awaitable[None]],
) -> None:
    await driver.publish(WAIT)
    run, event = await known(driver, port)

    async def read_then_moved(*arguments: Any) -> object:
        decided = await decide_waits(*arguments)
        assert run in decided
        await move(port, run)
        return decided

    monkeypatch.setattr(applier, "decide_waits", read_then_moved)
    assert not await at_once(port, event)
    assert "wait_ended" not in await driver.kinds(run)
    await port.submit(ORG, run, CancelRun())


async def test_p1_a_run_that_is_held_is_skipped_and_not_waited_for(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(WAIT)
    run, event = await known(driver, port)
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_RUN, run)
        assert not await at_once(port, event)
    assert await at_once(port, event)


async def test_p12_a_timer_of_another_org_is_left(driver: Driver, port: PostgresPort) -> None:
    await driver.publish(WAIT)
    run, event = await known(driver, port)
    assert not await at_once(port, RunEvents(run, (OrgEvent("rival", event.events[0].event),)))
    await port.admin.execute("UPDATE timers SET org = 'rival'")
    assert not await at_once(port, event)
    await port.submit(ORG, run, CancelRun())


@pytest.mark.parametrize("side", ["before", "after"])
async def test_f048_what_was_written_without_an_answer_is_done_once(
    driver: Driver, port: PostgresPort, side: str
) -> None:
    await driver.publish(WAIT)
    run, event = await known(driver, port)
    with arm(WRITE, side, Raise()), pytest.raises(FailPointHit):
        await at_once(port, event)
    assert await as_any(port, event) == (Applied() if side == "before" else Stale())
    assert await driver.kinds(run) == ["run_started", "step_waiting", "wait_ended", "run_completed"]


async def known(driver: Driver, port: PostgresPort) -> tuple[UUID, RunEvents]:
    """A waiting run whose definition the applier has read."""
    _, first = await waiting(driver, port)
    await as_any(port, first)
    return await waiting(driver, port)
