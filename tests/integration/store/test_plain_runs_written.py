"""A first step's lease and a last report on a remembered run: the same rows as by a load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any
from uuid import UUID, uuid4

import pytest
from perdure_machine.events import Acquire, CancelRun, Event, PauseRun
from perdure_machine.replies import Applied, Gone, Granted, Reply, Stale
from perdure_runtime.errors import PerdureError
from perdure_runtime.fail_points import FailPointHit, Raise, arm
from perdure_store.apply import starter
from perdure_store.apply.applier import Applier
from perdure_store.apply.batch import OrgEvent, Plain, RunEvents, Skipped
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.hand_overs import MAX_KEPT_PAYLOAD, RememberedRuns
from perdure_store.apply.run_ids import RunIds
from perdure_store.apply.starter import Starter
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver, success
from perdure_testkit.engines.postgres import RETENTION, PostgresPort

WRITE = "store.write_hand_overs"
ONE: dict[str, dict[str, Any]] = {
    "a": {"task": {"handler": "x", "input": {"of": "${input.n}"}}, "timeout": "5s"}
}
OUTPUT = b'{"out": [1, "\\u00fc"]}'
LOCK_RUN = "SELECT FROM runs WHERE run_id = $1 FOR UPDATE"
ROWS = {
    "runs": "to_jsonb(t) - '{created_at,ended_at,age_at,run_id,start_key}'::text[]"
    " || jsonb_build_object('ended', ended_at IS NOT NULL, 'age', age_at - created_at)",
    "steps": "to_jsonb(t) - '{run_id,lease_id,created_at,started_at,ended_at,effect_prefix,"
    "lease_expires_at,try_expires_at}'::text[] || jsonb_build_object("
    "'lease', extract(epoch FROM lease_expires_at - started_at),"
    "'try', extract(epoch FROM try_expires_at - started_at), 'ended', ended_at IS NOT NULL,"
    "'prefix', substr(effect_prefix, 37))",
    "attempts": "to_jsonb(t) - '{run_id,lease_id,started_at,ended_at}'::text[]"
    " || jsonb_build_object('in order', started_at <= ended_at)",
    "history": "to_jsonb(t) - '{run_id,at}'::text[]",
    "outbox": "to_jsonb(t) - '{outbox_id,run_id,created_at,slot}'::text[]",
    "start_keys": "jsonb_build_object('open', expires_at IS NULL)",
}
"""What is alike of the rows of two runs that did the same."""


class Plainly:
    """An applier and a starter that share what they remember, and what was written of it."""

    def __init__(self, port: PostgresPort, remembered: int = 100) -> None:
        self.written: Counter[str] = Counter()
        shared, catalogue, run_ids = RememberedRuns(remembered), Catalogue(), RunIds()
        port.applier = Applier(
            catalogue,
            retention=RETENTION,
            committed=lambda changes: None,
            plainly_written=self._add,
            remembered=shared,
        )
        port.starter = Starter(
            catalogue, run_ids, retention=RETENTION, committed=lambda changes: None,
            remembered=shared,
        )  # fmt: skip
        self.run_ids = run_ids

    def _add(self, written: Collection[Plain]) -> None:
        self.written.update(type(one).__name__ for one in written)


async def plainly(port: PostgresPort, remembered: int = 100) -> Plainly:
    made = Plainly(port, remembered)
    await made.run_ids.synchronise(port.coordinator)
    return made


async def sent(port: PostgresPort, run: UUID, event: Event, *, org: str = ORG) -> object:
    batch = [RunEvents(run, (OrgEvent(org, event),))]
    (answers,) = await port.applier.apply(port.coordinator, batch, wait=False)
    return answers if isinstance(answers, Skipped) else answers[0]


async def taken(port: PostgresPort, run: UUID) -> Granted:
    reply = await sent(port, run, Acquire(1, uuid4(), "ann"))
    assert isinstance(reply, Granted)
    return reply


async def rows_of(port: PostgresPort, run: UUID) -> dict[str, list[str]]:
    found = {}
    for table, columns in ROWS.items():
        order = "seq" if table == "history" else "1"
        query = f"SELECT {columns} AS row FROM {table} AS t WHERE run_id = $1 ORDER BY {order}"
        found[table] = [row["row"] for row in await port.admin.fetch(query, run)]
    return found


@pytest.mark.parametrize("until", ["queued", "leased", "ended"])
async def test_a_plain_run_leaves_the_rows_that_loads_and_decisions_leave(
    driver: Driver, port: PostgresPort, until: str
) -> None:
    await driver.publish(ONE, output={"was": "${nodes.a.output}", "for": "${input}"})
    found = []
    for remembered in (100, 0):
        made = await plainly(port, remembered)
        run = await driver.start(b'{"n": 7}', start_key=f"key {remembered}")
        if until != "queued":
            held = await taken(port, run)
            assert held.step.input == b'{"of":7}'
        if until == "ended":
            assert await sent(port, run, success(held, OUTPUT)) == Applied()
        expected = {"queued": {}, "leased": {"TakeUp": 1}, "ended": {"TakeUp": 1, "LastReport": 1}}
        assert made.written == (expected[until] if remembered else {})
        found.append(await rows_of(port, run))
        if until != "ended":
            await port.submit(ORG, run, CancelRun())
    assert found[0] == found[1]


@pytest.mark.parametrize("asked", [{}, {"priority": -99, "tags": {"k": "v"}}], ids=str)
async def test_a_plain_start_leaves_the_rows_that_any_start_leaves(
    driver: Driver, port: PostgresPort, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.publish({"a": {**ONE["a"], "priority": -5}}, limits={"age": "1h"})
    await plainly(port)
    plain = await driver.start(b'{"n": 7}', start_key="1", **asked)
    monkeypatch.setattr(starter, "start_plainly", lambda definition, event: None)
    other = await driver.start(b'{"n": 7}', start_key="2", **asked)
    assert await rows_of(port, plain) == await rows_of(port, other)
    for run in (plain, other):
        await port.submit(ORG, run, CancelRun())
    await driver.settle()


async def test_r5_repeats_of_lease_and_report_get_the_same_answers(
    driver: Driver, port: PostgresPort
) -> None:
    made = await plainly(port)
    await driver.publish(ONE)
    run = await driver.start(b'{"n": 7}')
    asked = Acquire(1, uuid4(), "ann")
    first, second = [await sent(port, run, asked) for _ in range(2)]
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert first.step.fence == second.step.fence == 1
    assert isinstance(await sent(port, run, Acquire(1, uuid4(), "bob")), Gone)
    replies = [await sent(port, run, success(first, OUTPUT)) for _ in range(2)]
    assert replies == [Applied(), Applied()]
    assert isinstance(await sent(port, run, Acquire(1, uuid4(), "bob")), Gone)
    assert made.written["TakeUp"] == 1


@pytest.mark.parametrize("event", [PauseRun("", ""), CancelRun()], ids=["paused", "cancelled"])
async def test_r1_a_run_that_another_process_has_moved_is_loaded(
    driver: Driver, port: PostgresPort, event: PauseRun | CancelRun
) -> None:
    made = await plainly(port)
    await driver.publish(ONE)
    queued = await driver.start(b'{"n": 7}')
    leased = await driver.start(b'{"n": 7}')
    held = await taken(port, leased)
    elsewhere = Applier(Catalogue(), retention=RETENTION, committed=lambda changes: None)
    for run in (queued, leased):
        batch = [RunEvents(run, (OrgEvent(ORG, event),))]
        await elsewhere.apply(port.coordinator, batch, wait=True)
    assert isinstance(await sent(port, queued, Acquire(1, uuid4(), "ann")), Gone)
    await sent(port, leased, success(held, OUTPUT))
    assert made.written == {"TakeUp": 1}
    for run in (queued, leased):
        await port.submit(ORG, run, CancelRun())
    await driver.settle()


async def test_p1_a_run_that_is_held_is_skipped_and_not_waited_for(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    made = await plainly(port)
    await driver.publish(ONE)
    run = await driver.start(b'{"n": 7}')
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_RUN, run)
        assert isinstance(await sent(port, run, Acquire(1, uuid4(), "ann")), Skipped)
    await taken(port, run)
    assert made.written == {}
    await port.submit(ORG, run, CancelRun())


async def test_p12_another_orgs_events_are_refused(driver: Driver, port: PostgresPort) -> None:
    made = await plainly(port)
    await driver.publish(ONE)
    run = await driver.start(b'{"n": 7}')
    refused = await sent(port, run, Acquire(1, uuid4(), "ann"), org="rival")
    assert isinstance(refused, PerdureError)
    assert made.written == {}
    await port.submit(ORG, run, CancelRun())


async def test_a_run_with_a_large_input_is_loaded(driver: Driver, port: PostgresPort) -> None:
    made = await plainly(port)
    await driver.publish({"a": {"task": {"handler": "x"}}})
    large = b'{"n": "' + b"x" * MAX_KEPT_PAYLOAD + b'"}'
    run = await driver.start(large)
    held = await taken(port, run)
    assert held.step.input == large
    assert made.written == {}
    await sent(port, run, success(held, OUTPUT))


@pytest.mark.parametrize("side", ["before", "after"])
async def test_f048_what_was_written_without_an_answer_is_repeated_and_done_once(
    driver: Driver, port: PostgresPort, side: str
) -> None:
    await plainly(port)
    await driver.publish(ONE)
    run = await driver.start(b'{"n": 7}')
    asked = Acquire(1, uuid4(), "ann")
    held = await _twice(port, run, asked, side)
    assert isinstance(held, Granted)
    reply = await _twice(port, run, success(held, OUTPUT), side)
    assert isinstance(reply, Applied)
    assert await driver.kinds(run) == [
        "run_started", "step_queued", "step_leased", "step_completed", "run_completed",
    ]  # fmt: skip


async def _twice(port: PostgresPort, run: UUID, event: Event, side: str) -> Reply | object:
    with arm(WRITE, side, Raise()), pytest.raises(FailPointHit):
        await sent(port, run, event)
    reply = await sent(port, run, event)
    assert not isinstance(reply, Stale)
    return reply
