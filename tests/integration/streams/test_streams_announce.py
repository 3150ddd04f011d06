import asyncio
from uuid import uuid4

from perdure_streams.announce import Announced, Announcer, Hearing, announced
from perdure_streams.freed import FreedListener
from perdure_streams.names import FREED_CHANNEL, Queue
from perdure_testkit.waiting import eventually
from redis.asyncio import Redis

IO, SLOW = Queue("io", "shared"), Queue("slow", "shared")


async def test_free_slots_of_all_workers_are_summed_per_queue(client: Redis) -> None:
    await Announcer(client, "w1").announce({IO: 3, SLOW: 1})
    await Announcer(client, "w2").announce({IO: 4})
    assert await announced(client, [IO, SLOW]) == [Announced(2, 7), Announced(1, 1)]


async def test_a_busy_worker_is_known_although_nothing_is_free(client: Redis) -> None:
    await Announcer(client, "w1").announce({IO: 0})
    assert await announced(client, [IO, SLOW]) == [Announced(1, 0), Announced(0, 0)]


async def test_a_worker_whose_word_ran_out_is_forgotten(client: Redis) -> None:
    await Announcer(client, "dead").announce({IO: 3})
    await Announcer(client, "w").announce({IO: 1})
    assert 0 < await client.pttl(IO.free_key("dead")) <= 4000
    await client.pexpire(IO.free_key("dead"), 0)
    assert await announced(client, [IO]) == [Announced(1, 1)]
    assert await client.smembers(IO.workers_key) == {b"w"}


async def test_who_is_heard_again_and_again_is_asked_in_one_round_trip(client: Redis) -> None:
    hearing = Hearing(client)
    announcer = Announcer(client, "w")

    async def heard() -> tuple[dict[Queue, Announced], int]:
        async with client.pipeline(transaction=False) as pipeline:
            hearing.ask(pipeline, [IO, SLOW])
            answers = await pipeline.execute()
        return await hearing.hear(iter(answers)), len(answers)

    assert await heard() == ({IO: Announced(0, 0), SLOW: Announced(0, 0)}, 2)
    await announcer.announce({IO: 3})
    assert await heard() == ({IO: Announced(1, 3), SLOW: Announced(0, 0)}, 2)
    await announcer.announce({IO: 2})
    assert await heard() == ({IO: Announced(1, 2), SLOW: Announced(0, 0)}, 3)
    await Announcer(client, "other").announce({IO: 5, SLOW: 1})
    assert (await heard())[0] == {IO: Announced(2, 7), SLOW: Announced(1, 1)}
    await client.delete(IO.free_key("w"))
    assert (await heard())[0] == {IO: Announced(1, 5), SLOW: Announced(1, 1)}
    assert await client.smembers(IO.workers_key) == {b"other"}
    assert (await heard())[0] == {IO: Announced(1, 5), SLOW: Announced(1, 1)}


async def test_nothing_is_left_of_a_queue_that_nobody_serves_any_more(client: Redis) -> None:
    await Announcer(client, "w").announce({IO: 1})
    assert 0 < await client.pttl(IO.workers_key) <= 40_000


async def test_a_draining_worker_takes_its_word_back(client: Redis) -> None:
    announcer = Announcer(client, "w")
    await announcer.announce({IO: 3, SLOW: 3})
    await announcer.withdraw([IO])
    assert await announced(client, [IO, SLOW]) == [Announced(0, 0), Announced(1, 3)]
    assert await client.exists(IO.free_key("w"), IO.workers_key) == 0


async def test_f072_a_freed_slot_wakes_who_listens(client: Redis) -> None:
    woken = asyncio.Event()
    listener = FreedListener(client, woken.set)
    await listener.start()
    await woken.wait()  # it subscribed
    woken.clear()
    announcer = Announcer(client, "w")
    await announcer.announce({IO: 1})
    await asyncio.wait_for(woken.wait(), 5)
    await listener.stop()


async def test_repeating_an_announcement_wakes_nobody(client: Redis) -> None:
    # Other tests announce on the same server meanwhile.
    queue, end = Queue("io", f"repeated-{uuid4()}"), Queue("io", f"end-{uuid4()}")
    channel = client.pubsub(ignore_subscribe_messages=True)
    await channel.subscribe(FREED_CHANNEL)
    announcer = Announcer(client, "w")
    for free in (2, 2, 1, 2):
        await announcer.announce({queue: free})
    await announcer.announce({end: 1})
    words: list[str] = []

    async def heard_the_end() -> bool:
        if word := await channel.get_message(timeout=0.05):
            words.append(word["data"].decode())
        return str(end) in words

    assert await eventually(heard_the_end)
    assert words.count(str(queue)) == 2
    await channel.aclose()  # type: ignore[no-untyped-call]


async def test_f078_a_listener_that_lost_its_connection_wakes_when_it_is_back(
    client: Redis,
) -> None:
    wakes: list[asyncio.Event] = [asyncio.Event(), asyncio.Event()]
    heard = iter(wakes)
    listener = FreedListener(client, lambda: next(heard, asyncio.Event()).set())
    await listener.start()
    await asyncio.wait_for(wakes[0].wait(), 5)
    await client.client_kill_filter(_type="pubsub")
    await asyncio.wait_for(wakes[1].wait(), 5)
    await listener.stop()
