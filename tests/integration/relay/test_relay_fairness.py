"""How much is sent, and whose rows: bounded by what workers announce, shared by orgs."""

from collections.abc import Awaitable, Callable

import pytest
from perdure_relay.parts import Parts
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Consumer, Entry
from perdure_streams.names import Queue, StreamName
from perdure_testkit.database import Database
from perdure_testkit.outbox import Outbox
from redis.asyncio import Redis

Dispatch = Callable[[], Awaitable[int]]
Deliver = Callable[..., Awaitable[list[Entry]]]

BUFFER = 2


@pytest.fixture
async def memory(relay: Parts, outbox: Outbox, announcer: Announcer, io: Queue) -> None:
    """Lets Redis begin to remember the stream, so that each pass of the test sends."""
    await relay.recovery.recover(io.streams(1)[0])


async def test_without_a_known_worker_nothing_is_sent(
    memory: None, outbox: Outbox, dispatch: Dispatch
) -> None:
    await outbox.add(3)
    assert await dispatch() == 0
    assert await outbox.count("ready") == 3


async def test_p2_no_more_is_sent_than_free_slots_and_a_buffer(
    memory: None, outbox: Outbox, dispatch: Dispatch, deliver: Deliver,
    announcer: Announcer, client: Redis, io: Queue, stream: StreamName,
) -> None:  # fmt: skip
    await announcer.announce({io: 3})
    await outbox.add(20)
    assert await dispatch() == 3 + BUFFER
    assert await dispatch() == 0
    delivered = await deliver(io)
    assert await dispatch() == 0, "entries that are delivered and not settled take room"
    for entry in delivered[:2]:
        await outbox.lease(entry.hint.run_id)
    await Consumer(client, [stream], "worker").settle(delivered[:2])
    assert await dispatch() == 2
    assert await client.xlen(str(stream)) == 3 + BUFFER


async def test_p2_a_busy_queue_gets_the_buffer_only(
    memory: None, outbox: Outbox, dispatch: Dispatch, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 0})
    await outbox.add(20)
    assert await dispatch() == BUFFER


async def test_p2_a_stream_never_holds_more_than_its_lanes_ceiling(
    memory: None, outbox: Outbox, dispatch: Dispatch, announcer: Announcer, io: Queue,
    relay: Parts, database: Database,
) -> None:  # fmt: skip
    await announcer.announce({io: 500})
    admin = await database.connect()
    await admin.execute("UPDATE lanes SET stream_ceiling = 7 WHERE lane = 'io'")
    await relay.duties.refresh()
    await outbox.add(20)
    assert await dispatch() == 7


async def test_f071_the_one_row_of_an_org_is_in_the_first_batch_beside_a_thousand(
    memory: None, outbox: Outbox, relay: Parts, deliver: Deliver, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 8})
    await outbox.add(1000, org="a")
    await outbox.add(1, org="b")
    await relay.dispatcher.run_once()
    assert "b" in [entry.hint.org for entry in await deliver(io)][:2]


async def test_orgs_that_found_no_room_are_first_when_there_is_some(
    memory: None, outbox: Outbox, dispatch: Dispatch, deliver: Deliver,
    announcer: Announcer, client: Redis, io: Queue, stream: StreamName,
) -> None:  # fmt: skip
    await announcer.announce({io: 0})
    for org in "abcde":
        await outbox.add(10, org=org)
    served: list[str] = []
    for _ in range(5):
        assert await dispatch() == BUFFER
        entries = await deliver(io)
        served += [entry.hint.org for entry in entries]
        for entry in entries:
            await outbox.lease(entry.hint.run_id)
        await Consumer(client, [stream], "worker").settle(entries)
    assert sorted(served) == sorted("abcde" * BUFFER)


async def test_within_an_org_priority_comes_before_age(
    memory: None, outbox: Outbox, dispatch: Dispatch, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 0})
    low, old, young = [(await outbox.add(priority=priority))[0] for priority in (-1, 0, 0)]
    (urgent,) = await outbox.add(priority=5)
    assert await dispatch() == BUFFER
    assert await outbox.states() == {low: "ready", old: "sent", young: "ready", urgent: "sent"}


async def test_more_orgs_than_one_pass_takes_are_all_served(
    memory: None, outbox: Outbox, dispatch: Dispatch, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 200})
    for n in range(70):
        await outbox.add(2, org=f"org-{n:03}")
    assert await dispatch() == 140


async def test_a_room_that_an_org_leaves_goes_to_the_others_at_once(
    memory: None, outbox: Outbox, dispatch: Dispatch, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 98})
    await outbox.add(200, org="a")
    await outbox.add(1, org="b")
    assert await dispatch() == 100
    assert await outbox.count("ready") == 101


async def test_queues_are_filled_by_their_own_workers_room(
    memory: None, outbox: Outbox, dispatch: Dispatch, announcer: Announcer, io: Queue
) -> None:
    acme = Queue("io", "acme")
    await announcer.announce({io: 1, acme: 4})
    for queue in (io, acme, Queue("slow", "shared")):
        await outbox.add(20, queue=str(queue))
    assert await dispatch() == 1 + BUFFER + 4 + BUFFER
