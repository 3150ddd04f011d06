"""One relay leads each shard, and a changed number of shards leaves no row behind (p2)."""

from collections.abc import Awaitable, Callable

import pytest
from perdure_relay.duties import Duty
from perdure_relay.parts import Parts
from perdure_relay.retired import GRACE_SECONDS
from perdure_runtime.clock import FakeClock
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Entry
from perdure_streams.names import Queue
from perdure_testkit.database import Database
from perdure_testkit.outbox import Outbox
from redis.asyncio import Redis

Count = Callable[[], Awaitable[int]]
Deliver = Callable[..., Awaitable[list[Entry]]]
MakeRelay = Callable[[Redis], Awaitable[Parts]]

IO_0 = Duty("io", 0)
QUEUES = [("io", "shared"), ("slow", "shared")]


@pytest.fixture
async def spread(database: Database, relay: Parts) -> Callable[[int], Awaitable[None]]:
    """Gives the lane io a number of shards, of which the relay leads each."""
    admin = await database.connect()

    async def change(shards: int) -> None:
        await admin.execute("UPDATE lanes SET shards = $1 WHERE lane = 'io'", shards)
        await relay.duties.refresh()
        for shard in range(shards):
            await relay.duties.wait_leading(Duty("io", shard))

    return change


async def test_of_two_relays_one_leads_each_shard(
    relay: Parts, make_relay: MakeRelay, client: Redis
) -> None:
    other = await make_relay(client)
    assert len(relay.duties.targets(QUEUES)) == 2
    assert other.duties.targets(QUEUES) == []


async def test_a_relay_that_stops_hands_over_at_once(
    relay: Parts, make_relay: MakeRelay, client: Redis, outbox: Outbox, announcer: Announcer,
    io: Queue,
) -> None:  # fmt: skip
    await relay.duties.stop()
    other = await make_relay(client)
    await other.duties.wait_leading(IO_0)
    await announcer.announce({io: 5})
    await outbox.add()
    assert relay.duties.targets(QUEUES) == []
    await other.dispatcher.run_once()
    assert (await other.dispatcher.run_once()).counts["published"] == 1


async def test_a_follower_sends_nothing(
    relay: Parts, make_relay: MakeRelay, client: Redis, outbox: Outbox, announcer: Announcer,
    io: Queue,
) -> None:  # fmt: skip
    other = await make_relay(client)
    await announcer.announce({io: 5})
    await outbox.add()
    assert (await other.dispatcher.run_once()).counts["published"] == 0
    assert await outbox.count("ready") == 1


async def test_p2_a_shard_sends_the_rows_of_its_slots(
    outbox: Outbox, announcer: Announcer, io: Queue, dispatch: Count, client: Redis,
    spread: Callable[[int], Awaitable[None]],
) -> None:  # fmt: skip
    await spread(4)
    await announcer.announce({io: 200})
    await outbox.add(40)
    assert await dispatch() == 40
    slots = await outbox.connection.fetch("SELECT slot % 4 AS shard FROM outbox")
    for stream in io.streams(4):
        expected = sum(row["shard"] == stream.shard for row in slots)
        assert await client.xlen(str(stream)) == expected


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5)])
async def test_p2_rows_sent_and_unsent_survive_a_changed_number_of_shards(
    before: int, after: int, outbox: Outbox, announcer: Announcer, io: Queue,
    dispatch: Count, recheck: Count, deliver: Deliver,
    spread: Callable[[int], Awaitable[None]],
) -> None:  # fmt: skip
    await spread(before)
    await announcer.announce({io: 200})
    await outbox.add(20)
    assert await dispatch() == 20
    await outbox.add(20)
    await spread(after)
    await dispatch()
    await recheck()
    await dispatch()
    runs = {entry.hint.run_id for entry in await deliver(io, after)}
    rows = await outbox.connection.fetch("SELECT run_id FROM outbox")
    assert runs == {row["run_id"] for row in rows}
    assert await outbox.count("sent") == 40


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
async def test_p2_what_stands_in_old_streams_is_worked_by_whoever_still_reads_them(
    before: int, after: int, outbox: Outbox, announcer: Announcer, io: Queue,
    dispatch: Count, recheck: Count, deliver: Deliver,
    spread: Callable[[int], Awaitable[None]],
) -> None:  # fmt: skip
    await spread(before)
    await announcer.announce({io: 200})
    await outbox.add(12)
    assert await dispatch() == 12
    await spread(after)
    old = await deliver(io, before)
    for entry in old[:4]:
        await outbox.lease(entry.hint.run_id)
    await recheck()
    await dispatch()
    again = {entry.hint.run_id for entry in await deliver(io, after)}
    rows = {row["run_id"] for row in await outbox.connection.fetch("SELECT run_id FROM outbox")}
    assert len(rows) == 8
    assert rows <= again | {entry.hint.run_id for entry in old}
    assert await outbox.count("sent") == 8


async def test_p2_streams_of_shards_that_are_no_more_are_removed_once_nobody_reads_them(
    outbox: Outbox, announcer: Announcer, io: Queue, dispatch: Count, recheck: Count,
    client: Redis, relay: Parts, clock: FakeClock, spread: Callable[[int], Awaitable[None]],
) -> None:  # fmt: skip
    await spread(3)
    await announcer.announce({io: 200})
    await outbox.add(30)
    assert await dispatch() == 30
    first, *others = io.streams(3)
    gone = [key for one in others for key in (str(one), one.memory_key, one.turn_key)]
    await relay.retired.run_once()
    await spread(1)
    await relay.retired.run_once()
    assert await client.exists(*gone) == 6, "workers read them for some seconds"
    await clock.advance(GRACE_SECONDS)
    assert (await relay.retired.run_once()).counts == {"removed": 2}
    assert await client.exists(*gone) == 0
    assert await client.exists(str(first), first.memory_key) == 2
    await recheck()
    await dispatch()
    assert await client.xlen(str(first)) == 30


async def test_a_shard_that_comes_back_is_kept(
    outbox: Outbox, announcer: Announcer, io: Queue, dispatch: Count, client: Redis,
    relay: Parts, clock: FakeClock, spread: Callable[[int], Awaitable[None]],
) -> None:  # fmt: skip
    await spread(2)
    await announcer.announce({io: 200})
    await outbox.add(20)
    await dispatch()
    await relay.retired.run_once()
    await spread(1)
    await relay.retired.run_once()
    await spread(2)
    await clock.advance(GRACE_SECONDS)
    assert (await relay.retired.run_once()).counts == {}
    assert await client.exists(*map(str, io.streams(2))) == 2
