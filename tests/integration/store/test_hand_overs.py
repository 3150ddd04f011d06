"""Hand-overs on remembered runs: the same rows as by a load, and only while the run is as known."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from perdure_machine.decide.hand_over import HandOver
from perdure_machine.events import CancelRun, PauseRun
from perdure_machine.replies import Applied, Cancelled, Granted, Stale
from perdure_runtime.fail_points import FailPointHit, Pause, Raise, arm
from perdure_store.apply.applier import Applier
from perdure_store.apply.batch import Answers, OrgEvent, Plain, RunEvents, Skipped
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.hand_overs import RememberedRuns
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver, offer_of, success
from perdure_testkit.engines.postgres import RETENTION, PostgresPort

WRITE = "store.write_hand_overs"
TASK: Mapping[str, Any] = {"handler": "x", "input": {"n": 1}}
CHAIN = {
    "a": {"task": TASK},
    "b": {"task": {**TASK, "input": {"got": "${nodes.a.output}"}}, "needs": ["a"]},
    "c": {"task": TASK, "needs": ["b"], "timeout": "5s", "priority": 3},
    "d": {"task": {"handler": "x", "input": {"of": "${input.n}"}}, "needs": ["c"]},
}
LOCK_RUN = "SELECT FROM runs WHERE run_id = $1 FOR UPDATE"
ROWS = {
    "runs": "to_jsonb(t) - '{created_at,run_id}'::text[]",
    "steps": "to_jsonb(t) - '{run_id,lease_id,created_at,started_at,ended_at,effect_prefix,"
    "lease_expires_at,try_expires_at}'::text[] || jsonb_build_object("
    "'lease', extract(epoch FROM lease_expires_at - started_at),"
    "'try', extract(epoch FROM try_expires_at - started_at), 'ended', ended_at IS NOT NULL,"
    "'prefix', substr(effect_prefix, 37))",
    "attempts": "to_jsonb(t) - '{run_id,lease_id,started_at,ended_at}'::text[]"
    " || jsonb_build_object('in order', started_at <= ended_at)",
    "history": "to_jsonb(t) - '{run_id,at}'::text[]",
}
"""What is alike of the rows of two runs that did the same."""


class Written:
    """What an applier told of hand-overs."""

    def __init__(self) -> None:
        self.hand_overs = 0

    def add(self, written: Collection[Plain]) -> None:
        self.hand_overs += sum(isinstance(one, HandOver) for one in written)


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture(autouse=True)
def watched(port: PostgresPort, written: Written) -> None:
    port.applier = applier(written)


def applier(written: Written, *, remembered: int = 100) -> Applier:
    return Applier(
        Catalogue(),
        retention=RETENTION,
        committed=lambda changes: None,
        plainly_written=written.add,
        remembered=RememberedRuns(remembered),
    )


async def report(
    port: PostgresPort, held: Granted, output: bytes = b"1"
) -> Applied | Stale | Skipped | object:
    """Report success on a step, and ask for the next one."""
    event = success(held, output, offer=offer_of(f"io:{ORG}"))
    batch = [RunEvents(held.run.run_id, (OrgEvent(ORG, event),))]
    (answers,) = await port.applier.apply(port.coordinator, batch, wait=False)
    return answers if isinstance(answers, Skipped) else answers[0]


async def go_on(port: PostgresPort, held: Granted) -> Granted:
    reply = await report(port, held, b'{"out": [1, "\\u00fc"]}')
    assert isinstance(reply, Applied)
    assert reply.next is not None
    return reply.next


async def rows_of(port: PostgresPort, run: UUID) -> dict[str, list[str]]:
    found = {}
    for table, columns in ROWS.items():
        order = "seq" if table == "history" else "1"
        query = f"SELECT {columns} AS row FROM {table} AS t WHERE run_id = $1 ORDER BY {order}"
        found[table] = [row["row"] for row in await port.admin.fetch(query, run)]
    return found


async def to_the_last(driver: Driver, port: PostgresPort) -> UUID:
    run = await driver.start(b'{"n": 7}')
    held = await driver.acquire(run, "a")
    for _ in range(3):
        held = await go_on(port, held)
    return run


async def test_a_hand_over_leaves_the_rows_that_a_load_and_a_decision_leave(
    driver: Driver, port: PostgresPort, written: Written
) -> None:
    await driver.publish(CHAIN)
    fast = await to_the_last(driver, port)
    # The run's input was not read before `d`, which needs it: that step is decided on a load.
    assert written.hand_overs == 2
    port.applier = applier(written, remembered=0)
    slow = await to_the_last(driver, port)
    assert written.hand_overs == 2
    assert await rows_of(port, fast) == await rows_of(port, slow)


async def test_the_answer_is_the_same_and_the_run_goes_on_to_its_end(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(CHAIN)
    run = await to_the_last(driver, port)
    step = await driver.step(run, "d")
    assert step.input == b'{"of":7}'
    assert (await driver.step(run, "b")).input == b'{"got":{"out": [1, "\\u00fc"]}}'


async def test_what_tells_of_it_is_made_while_it_is_written_and_forgotten_if_it_is_not(
    driver: Driver, port: PostgresPort, written: Written, database: Database
) -> None:
    await driver.publish(CHAIN)
    held = await driver.acquire(await driver.start(b'{"n": 7}'), "a")
    run, connection = held.run.run_id, await database.connect("coordinator")
    moved = [RunEvents(run, (OrgEvent(ORG, CancelRun()),))]
    event = OrgEvent(ORG, success(held, offer=offer_of(f"io:{ORG}")))
    made: list[UUID] = []
    with arm(WRITE, "before", pause := Pause()):
        applying = asyncio.create_task(
            port.applier.apply_plainly(port.coordinator, [RunEvents(run, (event,))], made.extend)
        )
        await pause.reached.wait()
        await applier(Written(), remembered=0).apply(connection, moved, wait=True)
        assert (made, written.hand_overs) == ([run], 0)
        pause.release.set()
        assert await applying == {}
    assert (made, written.hand_overs) == ([run], 0)
    assert not port.applier.remembers(run)


async def test_r5_a_repeated_report_gets_the_same_step_again(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(CHAIN)
    held = await driver.acquire(await driver.start(b'{"n": 7}'), "a")
    event = success(held, offer=offer_of(f"io:{ORG}"))
    batch = [RunEvents(held.run.run_id, (OrgEvent(ORG, event),))]
    found = [await port.applier.apply(port.coordinator, batch, wait=False) for _ in range(2)]
    first, second = (answers[0][0] for (answers) in found if not isinstance(answers[0], Skipped))
    assert isinstance(first, Applied)
    assert isinstance(second, Applied)
    assert first.next is not None
    assert second.next is not None
    assert first.next.step.lease_id == second.next.step.lease_id
    assert second.next.lease_for <= first.next.lease_for


@pytest.mark.parametrize("event", [PauseRun("", ""), CancelRun()], ids=["paused", "cancelled"])
async def test_r1_a_run_that_another_process_has_moved_is_decided_on_anew(
    driver: Driver, port: PostgresPort, written: Written, event: PauseRun | CancelRun
) -> None:
    await driver.publish(CHAIN)
    held = await driver.acquire(await driver.start(b'{"n": 7}'), "a")
    elsewhere = applier(Written())
    batch = [RunEvents(held.run.run_id, (OrgEvent(ORG, event),))]
    await elsewhere.apply(port.coordinator, batch, wait=True)
    reply = await report(port, held)
    assert isinstance(reply, Applied)
    assert reply.next is None
    assert written.hand_overs == 0
    assert (await driver.step(held.run.run_id, "a")).status == "completed"
    await port.submit(ORG, held.run.run_id, CancelRun())
    await driver.settle()


async def test_p1_a_run_that_is_held_is_skipped_and_not_waited_for(
    driver: Driver, port: PostgresPort, database: Database, written: Written
) -> None:
    await driver.publish(CHAIN)
    held = await driver.acquire(await driver.start(b'{"n": 7}'), "a")
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_RUN, held.run.run_id)
        assert isinstance(await report(port, held), Skipped)
    assert written.hand_overs == 0
    reply = await report(port, held)
    assert isinstance(reply, Applied)
    assert reply.next is not None


async def test_a_node_that_was_begun_already_is_not_begun_again(
    driver: Driver, port: PostgresPort, written: Written
) -> None:
    await driver.publish(CHAIN)
    held = await driver.acquire(await driver.start(b'{"n": 7}'), "a")
    await port.admin.execute(
        "INSERT INTO steps (run_id, step, org, node, kind, status, created_at, ended_at)"
        " VALUES ($1, 99, $2, 'b', 'task', 'skipped', now(), now())",
        held.run.run_id, ORG,
    )  # fmt: skip
    reply = await report(port, held)
    assert isinstance(reply, Applied)
    assert written.hand_overs == 0
    assert await port.admin.fetchval("SELECT count(*) FROM steps WHERE node = 'b'") == 1
    await port.submit(ORG, held.run.run_id, CancelRun())


async def test_of_one_batch_some_are_handed_over_and_others_decided_on_a_load(
    driver: Driver, port: PostgresPort, written: Written
) -> None:
    await driver.publish(CHAIN)
    helds = [await driver.acquire(await driver.start(b'{"n": 7}'), "a") for _ in range(3)]
    offer = offer_of(f"io:{ORG}")
    batch = [
        RunEvents(helds[0].run.run_id, (OrgEvent(ORG, success(helds[0], offer=offer)),)),
        RunEvents(helds[1].run.run_id, (OrgEvent(ORG, CancelRun()),)),
        RunEvents(helds[2].run.run_id, (OrgEvent("rival", success(helds[2], offer=offer)),)),
    ]
    answers: list[Answers | Skipped] = await port.applier.apply(port.coordinator, batch, wait=True)
    first, second, third = (one[0] for one in answers if not isinstance(one, Skipped))
    assert isinstance(first, Applied)
    assert first.next is not None
    assert second == Cancelled(changed=True)
    assert isinstance(third, Exception)
    assert written.hand_overs == 1


@pytest.mark.parametrize("side", ["before", "after"])
async def test_f048_a_hand_over_whose_answer_was_lost_is_repeated_and_done_once(
    driver: Driver, port: PostgresPort, side: str
) -> None:
    await driver.publish(CHAIN)
    held = await driver.acquire(await driver.start(b'{"n": 7}'), "a")
    event = success(held, offer=offer_of(f"io:{ORG}"))
    batch = [RunEvents(held.run.run_id, (OrgEvent(ORG, event),))]
    with arm(WRITE, side, Raise()), pytest.raises(FailPointHit):
        await port.applier.apply(port.coordinator, batch, wait=True)
    (answers,) = await port.applier.apply(port.coordinator, batch, wait=True)
    assert not isinstance(answers, Skipped)
    assert isinstance(answers[0], Applied)
    assert answers[0].next is not None
    lines = await port.admin.fetchval(
        "SELECT count(*) FROM history WHERE run_id = $1 AND kind = 'step_completed'",
        held.run.run_id,
    )
    assert lines == 1


async def test_f115_shuffled_hand_overs_of_two_connections_never_deadlock(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(CHAIN)
    helds = [await driver.acquire(await driver.start(b'{"n": 7}'), "a") for _ in range(40)]
    elsewhere = applier(Written(), remembered=0)

    async def repeat(connection: asyncpg.Connection, which: Applier, turn: int) -> None:
        batch = [
            RunEvents(held.run.run_id, (OrgEvent(ORG, success(held, offer=offer_of(f"io:{ORG}"))),))
            for held in helds[::turn]
        ]
        await which.apply(connection, batch, wait=True)

    await asyncio.gather(
        repeat(await database.connect("coordinator"), port.applier, 1),
        repeat(await database.connect("coordinator"), elsewhere, -1),
    )
    done = await port.admin.fetchval("SELECT count(*) FROM steps WHERE status = 'completed'")
    assert done == len(helds)
