"""How much is sent, and whose rows: bounded by what workers announce, shared by orgs."""

from collections.abc import Awaitable, Callable

import pytest
from perdure_relay.duties import Duty
from perdure_relay.parts import Parts
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Consumer, Entry
from perdure_streams.names import Queue, StreamName
from perdure_testkit.database import Database
from perdure_testkit.outbox import Outbox
from redis.asyncio import Redis

Dispatch = Callable[[], Awaitable[int]]
Deliver = Callable[..., Awaitable[list[Entry]]]
Send = Callable[..., Awaitable[list[int]]]

BUFFER = 2


@pytest.fixture
async def memory(relay: Parts, outbox: Outbox, announcer: Announcer, io: Queue) -> None:
    """Lets Redis begin to remember the stream, so that each pass of the test sends."""
    await relay.recovery.recover(io.streams(1)[0])


@pytest.fixture
def send(relay: Parts, deliver: Deliver, outbox: Outbox, client: Redis, io: Queue) -> Send:
    """Runs a relay's pass, and takes off all that it sent; returns the rows in the order sent."""

    async def run(parts: Parts = relay) -> list[int]:
        await parts.dispatcher.run_once()
        entries = await deliver(io)
        sent = "SELECT outbox_id FROM outbox WHERE run_id = $1"
        rows = [await outbox.connection.fetchval(sent, entry.hint.run_id) for entry in entries]
        for entry in entries:
            await outbox.lease(entry.hint.run_id)
        await Consumer(client, io.streams(1), "worker").settle(entries)
        return rows

    return run


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


async def test_f071_of_2000_steps_only_those_already_sent_stand_before_anothers_one(
    memory: None, outbox: Outbox, relay: Parts, deliver: Deliver, announcer: Announcer, io: Queue,
    client: Redis, stream: StreamName,
) -> None:  # fmt: skip
    await announcer.announce({io: 4})
    await outbox.add(2000, org="busy")
    await relay.dispatcher.run_once()
    window = 4 + BUFFER
    await outbox.add(1, org="quiet")
    sent: list[str] = []
    for _ in range(3):
        entries = await deliver(io)
        sent += [entry.hint.org for entry in entries]
        for entry in entries:
            await outbox.lease(entry.hint.run_id)
        await Consumer(client, [stream], "worker").settle(entries)
        await relay.dispatcher.run_once()
    assert sent[:window] == ["busy"] * window
    assert "quiet" in sent[window : window + 2]


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


async def test_one_job_does_not_fill_the_window_of_its_org(
    memory: None, outbox: Outbox, send: Send, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 4})
    flood = await outbox.add(100, job=1)
    (other,), (third,) = await outbox.add(job=2), await outbox.add(job=-3)
    assert set(await send()) == {*flood[:4], other, third}


async def test_jobs_take_turns_where_there_is_one_place_at_a_time(
    memory: None, outbox: Outbox, send: Send, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 0})
    one, other = await outbox.add(20, job=1), await outbox.add(20, job=2)
    assert [*await send(), *await send(), *await send()] == [
        row for pair in zip(one[:3], other[:3], strict=True) for row in pair
    ]


async def test_a_flood_of_small_priority_does_not_hold_up_another_job_of_a_higher_one(
    memory: None, outbox: Outbox, send: Send, announcer: Announcer, io: Queue
) -> None:
    await announcer.announce({io: 0})
    low, high = await outbox.add(20, job=1), await outbox.add(3, job=2, priority=1)
    assert await send() == high[:2]
    assert sorted(await send()) == sorted([high[2], low[0]])


async def test_an_org_of_more_weight_gets_more_places(
    memory: None, outbox: Outbox, relay: Parts, deliver: Deliver, announcer: Announcer, io: Queue,
    database: Database,
) -> None:  # fmt: skip
    admin = await database.connect()
    await admin.execute("INSERT INTO orgs (org, weight) VALUES ('a', 3)")
    await announcer.announce({io: 6})
    for org in "ab":
        await outbox.add(50, org=org)
    await relay.dispatcher.run_once()
    assert "".join(entry.hint.org for entry in await deliver(io)) == "aaabaaab"


async def test_another_relay_goes_on_with_the_turns_of_one_that_stopped(
    memory: None, outbox: Outbox, relay: Parts, send: Send, announcer: Announcer, io: Queue,
    make_relay: Callable[[Redis], Awaitable[Parts]], client: Redis,
) -> None:  # fmt: skip
    await announcer.announce({io: 0})
    rows = {org: await outbox.add(9, org=org) for org in "abcde"}
    assert sorted(await send()) == [rows["a"][0], rows["b"][0]]
    await relay.duties.stop()
    other = await make_relay(client)
    await other.duties.wait_leading(Duty("io", 0))
    assert sorted(await send(other)) == [rows["c"][0], rows["d"][0]]


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
