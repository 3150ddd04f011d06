"""What Redis loses comes again (p2), and what only waits does not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from perdure_relay.parts import Parts
from perdure_runtime.clock import FakeClock
from perdure_runtime.errors import Unavailable
from perdure_runtime.fail_points import Pause, Raise, arm
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Consumer, Entry
from perdure_streams.names import Queue, StreamName
from perdure_testkit.database import Database
from perdure_testkit.outbox import Outbox
from redis.asyncio import Redis

Count = Callable[[], Awaitable[int]]
Deliver = Callable[..., Awaitable[list[Entry]]]


@pytest.fixture
async def sent(outbox: Outbox, announcer: Announcer, io: Queue, dispatch: Count) -> list[int]:
    """Five rows that were sent and wait in the stream; the stream has room for more."""
    await announcer.announce({io: 20})
    rows = await outbox.add(5)
    assert await dispatch() == 5
    return rows


async def test_p2_f087_what_was_sent_to_a_redis_that_lost_its_memory_comes_again(
    sent: list[int], client: Redis, announcer: Announcer, io: Queue, outbox: Outbox,
    recheck: Count, dispatch: Count, deliver: Deliver,
) -> None:  # fmt: skip
    await client.flushdb()
    assert await recheck() == 5
    assert await outbox.count("ready") == 5
    await announcer.announce({io: 20})
    assert await dispatch() == 5
    assert len(await deliver(io)) == 5
    assert await recheck() == 0


async def test_p2_the_memory_is_looked_at_before_anything_is_added(
    sent: list[int], client: Redis, announcer: Announcer, io: Queue, outbox: Outbox,
    dispatch: Count, deliver: Deliver,
) -> None:  # fmt: skip
    await client.flushdb()
    await announcer.announce({io: 20})
    await outbox.add()
    assert await dispatch() == 6
    assert len(await deliver(io)) == 6


async def test_p2_dying_before_the_memory_key_is_set_recovers_once_more(
    sent: list[int], client: Redis, announcer: Announcer, io: Queue, stream: StreamName,
    recheck: Count, dispatch: Count,
) -> None:  # fmt: skip
    await client.flushdb()
    with arm("streams.remember", "before", Raise()), pytest.raises(Unavailable):
        await recheck()
    assert await client.exists(stream.memory_key) == 0
    await announcer.announce({io: 20})
    assert await dispatch() == 5
    assert await client.exists(stream.memory_key) == 1


async def test_p2_dying_before_the_rows_are_ready_leaves_the_memory_unset(
    sent: list[int], client: Redis, recheck: Count, outbox: Outbox
) -> None:
    await client.flushdb()
    with arm("store.outbox_ready_again", "before", Raise()), pytest.raises(Unavailable):
        await recheck()
    assert await outbox.count("sent") == 5
    assert await recheck() == 5


async def test_p2_a_row_whose_entry_is_gone_comes_again(
    sent: list[int], client: Redis, stream: StreamName, outbox: Outbox, recheck: Count,
    dispatch: Count,
) -> None:  # fmt: skip
    entry_id = await outbox.connection.fetchval(
        "SELECT entry_id FROM outbox WHERE outbox_id = $1", sent[2]
    )
    await client.xdel(str(stream), entry_id)
    assert await recheck() == 1
    assert [row for row, state in (await outbox.states()).items() if state == "ready"] == [sent[2]]
    assert await dispatch() == 1


async def test_p2_age_alone_never_sends_a_row_again(
    sent: list[int], database: Database, recheck: Count, deliver: Deliver, io: Queue
) -> None:
    admin = await database.connect()
    await admin.execute(
        "UPDATE outbox SET sent_at = sent_at - interval '1 day',"
        " created_at = created_at - interval '1 day'"
    )
    assert await recheck() == 0
    await deliver(io)
    assert await recheck() == 0, "an entry that is delivered and waits for its lease is there"


async def test_f083_a_pending_entry_that_was_deleted_is_found_by_its_row(
    sent: list[int], client: Redis, stream: StreamName, deliver: Deliver, io: Queue, recheck: Count
) -> None:
    await client.xdel(str(stream), *[entry.entry_id for entry in await deliver(io)])
    assert await Consumer(client, [stream], "other").reclaim(0, 100) == []
    assert await recheck() == 5


async def test_an_entry_that_is_pending_with_nobody_does_not_hold_its_step_for_ever(
    sent: list[int], client: Redis, stream: StreamName, deliver: Deliver, io: Queue,
    recheck: Count, dispatch: Count,
) -> None:  # fmt: skip
    await deliver(io)
    await client.xgroup_delconsumer(str(stream), "workers", "worker")
    assert await recheck() == 5
    assert await dispatch() == 5
    assert len(await deliver(io)) == 5


@pytest.mark.parametrize(
    "meanwhile",
    ["DELETE FROM outbox", "UPDATE outbox SET entry_id = '9-9'", "UPDATE outbox SET priority = 9"],
    ids=["leased", "sent again by another", "left alone"],
)
async def test_p2_a_lost_entry_is_no_reason_when_the_row_moved_on_meanwhile(
    meanwhile: str, sent: list[int], outbox: Outbox, relay: Parts, client: Redis,
    stream: StreamName,
) -> None:  # fmt: skip
    await client.xtrim(str(stream), maxlen=0, approximate=False)
    paused = Pause()
    with arm("store.outbox_ready_again", "before", paused):
        checking = asyncio.create_task(relay.recovery.run_once())
        await paused.reached.wait()
        await outbox.connection.execute(meanwhile)
        paused.release.set()
        done = await checking
    assert done.counts["redispatched"] == (5 if "priority" in meanwhile else 0)


async def test_f086_a_stream_that_was_evicted_is_made_again_with_its_group(
    sent: list[int], client: Redis, stream: StreamName, outbox: Outbox, dispatch: Count,
    deliver: Deliver, io: Queue, clock: FakeClock,
) -> None:  # fmt: skip
    await client.delete(str(stream))
    await outbox.add()
    await dispatch()
    await clock.advance(60)
    assert await dispatch() == 6
    assert len(await deliver(io)) == 6


async def test_more_sent_rows_than_one_page_are_all_checked(
    outbox: Outbox, announcer: Announcer, io: Queue, dispatch: Count, recheck: Count,
    client: Redis, stream: StreamName,
) -> None:  # fmt: skip
    await announcer.announce({io: 900})
    await outbox.add(700)
    assert await dispatch() == 700
    await client.xtrim(str(stream), maxlen=0, approximate=False)
    assert [await recheck(), await recheck()] == [500, 200]
