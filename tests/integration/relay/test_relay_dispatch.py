"""From ready rows to stream entries: what is sent, how often, and what dying in between leaves."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from perdure_relay.dispatch import FEW
from perdure_relay.parts import Parts
from perdure_runtime.clock import FakeClock
from perdure_runtime.fail_points import Pause, Raise, arm
from perdure_store import outbox as outbox_reads
from perdure_store.pool import Connection
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Entry
from perdure_streams.names import Queue, StreamName
from perdure_testkit.database import Database
from perdure_testkit.outbox import Outbox

Dispatch = Callable[[], Awaitable[int]]
Deliver = Callable[..., Awaitable[list[Entry]]]

RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")
TRACEPARENT = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"


@pytest.fixture(autouse=True)
async def ten_free_slots(announcer: Announcer, io: Queue) -> None:
    await announcer.announce({io: 10})


async def test_a_ready_row_becomes_a_hint_and_is_marked_with_its_entry(
    outbox: Outbox, dispatch: Dispatch, deliver: Deliver, io: Queue
) -> None:
    await outbox.add(run_id=RUN, traceparent=TRACEPARENT)
    assert await dispatch() == 1
    (entry,) = await deliver(io)
    hint = entry.hint
    assert (hint.org, hint.run_id, hint.step, hint.traceparent) == ("acme", RUN, 1, TRACEPARENT)
    row = await outbox.connection.fetchrow("SELECT * FROM outbox")
    assert row is not None
    assert (row["state"], row["entry_id"]) == ("sent", entry.entry_id)
    assert row["sent_at"] is not None
    assert await dispatch() == 0


@pytest.mark.parametrize("point", ["streams.xadd.after", "store.outbox_mark_sent.before"])
async def test_r4_dying_between_xadd_and_mark_sends_twice_and_keeps_the_row(
    outbox: Outbox, dispatch: Dispatch, deliver: Deliver, io: Queue, clock: FakeClock, point: str
) -> None:
    (row,) = await outbox.add()
    name, _, side = point.rpartition(".")
    with arm(name, side, Raise()):
        assert await dispatch() == 0
    assert await outbox.states() == {row: "ready"}
    await clock.advance(60)
    assert await dispatch() == 1
    assert len({entry.hint.run_id for entry in await deliver(io)}) == 1
    assert await outbox.states() == {row: "sent"}


async def test_p2_a_relay_that_was_paused_does_not_mark_the_row_of_a_retry(
    outbox: Outbox, relay: Parts, dispatch: Dispatch
) -> None:
    await outbox.add()
    await dispatch()
    await outbox.lease(await outbox.connection.fetchval("SELECT run_id FROM outbox"))
    await outbox.add(run_id=RUN)
    paused = Pause()
    with arm("streams.xadd", "after", paused):
        sending = asyncio.create_task(relay.dispatcher.run_once())
        await paused.reached.wait()
        await outbox.lease(RUN)
        (retry,) = await outbox.add(run_id=RUN)
        paused.release.set()
        await sending
    assert await outbox.states() == {retry: "ready"}


async def test_p2_a_row_that_was_blocked_while_it_was_sent_stays_blocked(
    outbox: Outbox, relay: Parts, stream: StreamName
) -> None:
    await relay.recovery.recover(stream)
    (row,) = await outbox.add()
    paused = Pause()
    with arm("streams.xadd", "after", paused):
        sending = asyncio.create_task(relay.dispatcher.run_once())
        await paused.reached.wait()
        await outbox.connection.execute("UPDATE outbox SET state = 'blocked'")
        paused.release.set()
        await sending
    assert await outbox.states() == {row: "blocked"}


async def test_f075_a_lower_id_that_is_committed_later_is_sent_too(
    outbox: Outbox, database: Database, dispatch: Dispatch
) -> None:
    late = await database.connect("coordinator")
    transaction = late.transaction()
    await transaction.start()
    (lower,) = await Outbox(late).add()
    (higher,) = await outbox.add()
    assert lower < higher
    assert await dispatch() == 1
    await transaction.commit()
    assert await dispatch() == 1
    assert await outbox.states() == {lower: "sent", higher: "sent"}


async def test_r14_a_row_that_is_being_leased_is_not_waited_for(
    outbox: Outbox, database: Database, dispatch: Dispatch
) -> None:
    (held,) = await outbox.add()
    (free,) = await outbox.add()
    holder = await database.connect("coordinator")
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("SELECT FROM outbox WHERE outbox_id = $1 FOR UPDATE", held)
    await asyncio.wait_for(dispatch(), 5)
    await transaction.rollback()
    assert await outbox.states() == {held: "ready", free: "sent"}


async def test_r13_no_transaction_is_open_while_redis_is_called(
    outbox: Outbox, relay: Parts, stream: StreamName, database: Database
) -> None:
    await relay.recovery.recover(stream)
    await outbox.add()
    paused = Pause()
    with arm("streams.xadd", "before", paused):
        sending = asyncio.create_task(relay.dispatcher.run_once())
        await paused.reached.wait()
        open_transactions = await (await database.connect()).fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'perdure_relay'"
            " AND datname = current_database() AND xact_start IS NOT NULL"
        )
        paused.release.set()
        await sending
    assert open_transactions == 0


async def test_blocked_rows_are_not_sent_and_stand_in_nobodys_way(
    outbox: Outbox, dispatch: Dispatch
) -> None:
    (blocked, free) = await outbox.add(2)
    await outbox.connection.execute(
        "UPDATE outbox SET state = 'blocked' WHERE outbox_id = $1", blocked
    )
    assert await dispatch() == 1
    assert await outbox.states() == {blocked: "blocked", free: "sent"}


@pytest.mark.parametrize("count", [1, FEW + 1])
@pytest.mark.parametrize("lane", ["a", "z"], ids=["before the others", "after the others"])
async def test_rows_of_a_lane_that_does_not_exist_hinder_nobody(
    outbox: Outbox, dispatch: Dispatch, lane: str, count: int
) -> None:
    await outbox.add(count, queue=f"{lane}:shared")
    (known,) = await outbox.add()
    assert await dispatch() == 1
    assert (await outbox.states())[known] == "sent"
    assert await outbox.count("ready") == count


@pytest.mark.parametrize("count", [FEW, FEW + 1])
async def test_few_rows_and_many_are_sent_each_orgs_by_priority(
    outbox: Outbox, dispatch: Dispatch, deliver: Deliver, announcer: Announcer, io: Queue,
    count: int,
) -> None:  # fmt: skip
    await announcer.announce({io: count})
    for place in range(count):
        await outbox.add(org=f"org {place % 3}", priority=place, run_id=uuid.UUID(int=place))
    assert await dispatch() == count
    sent = [entry.hint for entry in await deliver(io)]
    for org in {hint.org for hint in sent}:
        mine = [hint.run_id.int for hint in sent if hint.org == org]
        assert mine == sorted(mine, reverse=True)


async def test_p6_it_is_not_asked_of_a_backlog_whether_it_is_small(
    outbox: Outbox, dispatch: Dispatch, announcer: Announcer, io: Queue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    await announcer.announce({io: 1})
    await outbox.add(2 * FEW)
    assert 0 < await dispatch() < FEW
    asked = []

    async def few_ready(connection: Connection, limit: int) -> object:
        asked.append(limit)
        return await read(connection, limit)

    read = outbox_reads.few_ready
    monkeypatch.setattr(outbox_reads, "few_ready", few_ready)
    await dispatch()
    assert asked == []
    await announcer.announce({io: 2 * FEW})
    for _ in range(3):  # the rest goes, then nothing is found, then it is asked
        await dispatch()
    assert asked == [FEW]


async def test_the_relay_may_write_nothing_but_its_marks(
    outbox: Outbox, database: Database
) -> None:
    await outbox.add()
    relay = await database.connect("relay")
    for statement in ("DELETE FROM outbox", "UPDATE outbox SET priority = 1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await relay.execute(statement)


async def test_a_freed_slot_counts_only_where_a_row_was_left_for_want_of_room(
    outbox: Outbox, relay: Parts, dispatch: Dispatch, announcer: Announcer, io: Queue
) -> None:
    wanted = []

    async def look() -> None:
        await dispatch()
        wanted.append(relay.dispatcher.wants_room)

    await look()
    await outbox.add()
    await look()
    await announcer.withdraw([io])
    await outbox.add()
    await look()
    await announcer.announce({io: 10})
    await look()
    assert wanted == [False, False, True, False]


async def test_a_slot_that_is_freed_during_a_pass_counts(
    outbox: Outbox, relay: Parts, stream: StreamName
) -> None:
    await relay.recovery.recover(stream)
    await outbox.add()
    paused = Pause()
    with arm("streams.xadd", "after", paused):
        passing = asyncio.create_task(relay.dispatcher.run_once())
        await paused.reached.wait()
        assert relay.dispatcher.wants_room
        paused.release.set()
        await passing
