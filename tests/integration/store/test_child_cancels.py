"""Many children: cancelled in bounded parts, each by an event of its own (design section 12)."""

from __future__ import annotations

import json
from collections import defaultdict
from uuid import UUID

import pytest
from perdure_machine.changes import Changes
from perdure_machine.events import CancelRun, Event, FireTimer, TellOfChild
from perdure_machine.replies import ChildWanted, Reply
from perdure_machine.states import TimerKind
from perdure_runtime.errors import PerdureError
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.postgres import PostgresPort

AT_ONCE = 100
PATIENCE = 1500

# Which transaction changed which run; starts are insertions and not among them.
_WATCH = (
    "CREATE TABLE changed_runs (transaction xid8, run_id uuid)",
    "GRANT INSERT ON changed_runs TO perdure_coordinator",
    "CREATE FUNCTION note_changed_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO changed_runs VALUES (pg_current_xact_id(), NEW.run_id); RETURN NULL; END $$",
    "CREATE TRIGGER noting AFTER UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION note_changed_run()",
)
_MOST_RUNS = """
SELECT max(runs) FROM (
    SELECT count(DISTINCT run_id) AS runs FROM changed_runs GROUP BY transaction
) AS transactions
"""


@pytest.fixture
def leaf(port: PostgresPort) -> Driver:
    """Somebody who drives the lowest runs."""
    return Driver(port)


async def deliver(port: PostgresPort) -> bool:
    """Deliver what is due, the events of one run together; tell whether there was anything."""
    due: defaultdict[UUID, list[int]] = defaultdict(list)
    for timer in await port.timers():
        if timer.remaining <= 0:
            due[timer.run_id].append(timer.timer_id)
    for run_id, timer_ids in due.items():
        for first in range(0, len(timer_ids), AT_ONCE):
            some = timer_ids[first : first + AT_ONCE]
            replies = await port.submit(ORG, run_id, *map(FireTimer, some))
            await answer(port, run_id, dict(zip(some, replies, strict=True)))
    return bool(due)


async def answer(
    port: PostgresPort, run_id: UUID, replies: dict[int, Reply | PerdureError]
) -> None:
    """Do what a parent asks about its children, and tell it."""
    told: list[Event] = []
    for timer_id, reply in replies.items():
        assert not isinstance(reply, PerdureError), reply
        if isinstance(reply, ChildWanted):
            told.append(TellOfChild(timer_id, await port.answer(ORG, reply)))
    if told:
        await port.submit(ORG, run_id, *told)


async def settle(port: PostgresPort) -> None:
    while await deliver(port):
        pass


async def cancelled(port: PostgresPort, workflow: str) -> int:
    """Count the cancelled runs of a workflow."""
    count = await port.admin.fetchval(
        "SELECT count(*) FROM runs WHERE workflow = $1 AND status = 'cancelled'", workflow
    )
    return int(count)


async def cancel_children(
    driver: Driver, leaf: Driver, port: PostgresPort, count: int
) -> list[int]:
    """Cancel a run with so many children; return how many of them each event asked to end."""
    await leaf.publish({"rest": {"wait": "1d"}})
    call = {"run": {"workflow": leaf.workflow, "wait": False, "on_parent_end": "cancel"}}
    each = {"for_each": {"in": "${input}", "nodes": {"call": call}}}
    await driver.publish({"each": each, "rest": {"wait": "1d"}}, limits={"steps": 2 * count})
    for statement in _WATCH:
        await port.admin.execute(statement)
    run = await driver.start(json.dumps(list(range(count))).encode())
    await settle(port)
    assert (await port.run(run)).open_children == count
    port.committed.clear()
    await driver.submit(run, CancelRun())
    await settle(port)
    assert await cancelled(port, leaf.workflow) == count
    assert await port.admin.fetchval(_MOST_RUNS) == 1
    assert await port.timers() == []
    assert await port.no_way_forward() == []
    return [asked for one in port.committed if (asked := _asked(one))]


def _asked(changes: Changes) -> int:
    return sum(timer.kind is TimerKind.CANCEL_RUN for timer in changes.set_timers)


async def test_hundreds_of_children_are_cancelled_some_at_a_time(
    driver: Driver, leaf: Driver, port: PostgresPort
) -> None:
    assert await cancel_children(driver, leaf, port, 520) == [500, 20]


@pytest.mark.long
@pytest.mark.timeout(PATIENCE)
async def test_ten_thousand_children_are_cancelled_and_no_event_locks_two_runs(
    driver: Driver, leaf: Driver, port: PostgresPort
) -> None:
    assert await cancel_children(driver, leaf, port, 10_000) == [500] * 20
