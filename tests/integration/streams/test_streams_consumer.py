import uuid
from collections.abc import Sequence

import pytest
from perdure_runtime.clock import SystemClock
from perdure_runtime.errors import FailedPrecondition, Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_stack.valkey import EmbeddedValkey
from perdure_streams.client import open_streams
from perdure_streams.consumer import MISSING_GROUP_BACKOFF, Consumer, Entry
from perdure_streams.groups import make_group
from perdure_streams.message import Hint
from perdure_streams.names import GROUP, Queue, StreamName
from perdure_streams.producer import Producer
from redis.asyncio import Redis

SHARED = StreamName(Queue("io", "shared"), 0)
ACME = StreamName(Queue("io", "acme"), 0)
SLOW = StreamName(Queue("slow", "shared"), 0)
RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")
BLOCK_MS = 20


class WaitLog(SystemClock):
    """A clock whose sleeps are written down and take no time."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


async def publish(client: Redis, stream: StreamName, count: int) -> list[str]:
    producer = Producer(client)
    await producer.begin_memory(stream)
    return await producer.publish(stream, [Hint("acme", RUN, 1 + n) for n in range(count)])


def steps_of(entries: Sequence[Entry]) -> list[int]:
    return [entry.hint.step for entry in entries]


async def pending(client: Redis, stream: StreamName) -> int:
    return int((await client.xpending(str(stream), GROUP))["pending"])


async def left(client: Redis, stream: StreamName) -> tuple[int, int]:
    """Entries in the stream, and those of them that are pending."""
    return await client.xlen(str(stream)), await pending(client, stream)


async def test_each_entry_goes_to_one_worker(client: Redis) -> None:
    await publish(client, SHARED, 4)
    first = await Consumer(client, [SHARED], "w1").read(2, BLOCK_MS)
    second = await Consumer(client, [SHARED], "w2").read(9, BLOCK_MS)
    assert steps_of(first) == [1, 2]
    assert steps_of(second) == [3, 4]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
async def test_no_more_is_read_than_there_are_free_slots(client: Redis, count: int) -> None:
    streams = [SHARED, ACME, SLOW]
    for stream in streams:
        await publish(client, stream, 9)
    entries = await Consumer(client, streams, "w").read(count, BLOCK_MS)
    assert 0 < len(entries) <= count
    assert sum([await pending(client, stream) for stream in streams]) == len(entries)


async def test_a_busy_queue_does_not_starve_another(client: Redis) -> None:
    await publish(client, SHARED, 50)
    await publish(client, SLOW, 1)
    consumer = Consumer(client, [SHARED, SLOW], "w")
    read = [entry.stream for _ in range(2) for entry in await consumer.read(1, BLOCK_MS)]
    assert SLOW in read


async def test_one_free_slot_waits_for_the_entries_of_every_queue(client: Redis) -> None:
    consumer = Consumer(client, [SHARED, ACME, SLOW], "w")
    assert await consumer.read(1, BLOCK_MS) == []
    await publish(client, SLOW, 1)
    assert steps_of(await consumer.read(1, BLOCK_MS)) == [1]


async def test_what_arrives_in_two_queues_at_once_fills_one_slot_and_is_given_back(
    client: Redis,
) -> None:
    consumer = Consumer(client, [SHARED, SLOW], "w")
    arriving = ArriveAt(client, passing=3)  # the two looks before it found nothing
    with arm("streams.xreadgroup", "before", arriving):
        taken = await consumer.read(1, BLOCK_MS)
    assert len(taken) == 1
    given_back = await Consumer(client, [SHARED, SLOW], "other").reclaim(3_600_000, 9)
    assert {entry.stream for entry in taken + given_back} == {SHARED, SLOW}


class ArriveAt:
    """At the nth passing of a fail point, puts an entry into each of two queues."""

    def __init__(self, client: Redis, passing: int) -> None:
        self._client = client
        self._left = passing

    async def run(self, point: str) -> None:
        self._left -= 1
        if self._left == 0:
            for stream in (SHARED, SLOW):
                await publish(self._client, stream, 1)

    def run_sync(self, point: str) -> None:
        raise NotImplementedError


async def test_streams_that_are_served_anew_are_read(client: Redis) -> None:
    await publish(client, ACME, 1)
    consumer = Consumer(client, [SHARED], "w")
    assert await consumer.read(1, BLOCK_MS) == []
    consumer.serve([ACME])
    assert steps_of(await consumer.read(1, BLOCK_MS)) == [1]


async def test_p2_settling_leaves_neither_entry_nor_pending(client: Redis) -> None:
    await publish(client, SHARED, 2)
    await publish(client, SLOW, 1)
    consumer = Consumer(client, [SHARED, SLOW], "w")
    entries = await consumer.read(9, BLOCK_MS)
    await consumer.settle(entries)
    await consumer.settle(entries)
    assert await left(client, SHARED) == (0, 0)
    assert await left(client, SLOW) == (0, 0)


async def test_p2_dying_around_settle_leaves_both_or_neither(client: Redis) -> None:
    await publish(client, SHARED, 1)
    consumer = Consumer(client, [SHARED], "w")
    entries = await consumer.read(1, BLOCK_MS)
    with arm("streams.settle", "before", Raise()), pytest.raises(Unavailable):
        await consumer.settle(entries)
    assert await left(client, SHARED) == (1, 1)
    with arm("streams.settle", "after", Raise()), pytest.raises(Unavailable):
        await consumer.settle(entries)
    assert await left(client, SHARED) == (0, 0)


async def test_p2_ack_and_delete_are_one_transaction(own_valkey: EmbeddedValkey) -> None:
    client = await open_streams(own_valkey.url, client_name="test")
    await publish(client, SHARED, 2)
    consumer = Consumer(client, [SHARED], "w")
    entries = await consumer.read(2, BLOCK_MS)
    await client.config_resetstat()
    await consumer.settle(entries)
    calls = {
        name: (await client.info("commandstats"))[f"cmdstat_{name}"]["calls"]
        for name in ("multi", "xack", "xdel", "exec")
    }
    assert calls == {"multi": 1, "xack": 1, "xdel": 1, "exec": 1}
    await client.aclose()


async def test_entries_of_a_worker_that_died_before_the_lease_are_taken_over(
    client: Redis,
) -> None:
    await publish(client, SHARED, 3)
    await Consumer(client, [SHARED], "dead").read(9, BLOCK_MS)
    consumer = Consumer(client, [SHARED], "w")
    assert await consumer.reclaim(60_000, 9) == []
    assert steps_of(await consumer.reclaim(0, 2)) == [1, 2]
    assert steps_of(await consumer.reclaim(0, 2)) == [3]


async def test_an_answer_to_a_read_that_was_lost_is_reclaimed(client: Redis) -> None:
    await publish(client, SHARED, 1)
    consumer = Consumer(client, [SHARED], "w")
    with arm("streams.xreadgroup", "after", Raise()), pytest.raises(Unavailable):
        await consumer.read(1, BLOCK_MS)
    assert await consumer.read(1, BLOCK_MS) == []
    assert steps_of(await consumer.reclaim(0, 9)) == [1]


async def test_an_answer_to_a_reclaim_that_was_lost_is_reclaimed(client: Redis) -> None:
    await publish(client, SHARED, 1)
    await Consumer(client, [SHARED], "dead").read(1, BLOCK_MS)
    consumer = Consumer(client, [SHARED], "w")
    with arm("streams.xautoclaim", "after", Raise()), pytest.raises(Unavailable):
        await consumer.reclaim(0, 9)
    assert steps_of(await consumer.reclaim(0, 9)) == [1]


async def test_what_is_given_back_another_takes_at_once(client: Redis) -> None:
    await publish(client, SHARED, 1)
    draining = Consumer(client, [SHARED], "draining")
    await draining.give_back(await draining.read(1, BLOCK_MS))
    assert steps_of(await Consumer(client, [SHARED], "w").reclaim(3_600_000, 9)) == [1]


async def test_f083_an_entry_that_was_deleted_while_pending_is_acknowledged(
    client: Redis,
) -> None:
    (entry_id,) = await publish(client, SHARED, 1)
    await Consumer(client, [SHARED], "dead").read(1, BLOCK_MS)
    await client.xdel(str(SHARED), entry_id)
    assert await Consumer(client, [SHARED], "w").reclaim(0, 9) == []
    assert await left(client, SHARED) == (0, 0)


async def test_f083_nil_entries_of_a_server_before_7_are_acknowledged(client: Redis) -> None:
    gone, _ = await publish(client, SHARED, 2)
    consumer = Consumer(client, [SHARED], "w")
    await consumer.read(9, BLOCK_MS)
    await client.xdel(str(SHARED), gone)
    # Such a server answers nil and leaves the entry pending with whoever claimed it.
    await consumer._ack_vanished(SHARED)
    assert await left(client, SHARED) == (1, 1)


async def test_a_broken_entry_is_dropped_and_the_others_are_read(client: Redis) -> None:
    await publish(client, SHARED, 1)
    await client.xadd(str(SHARED), {"org": "acme", "step": "no number"})
    assert steps_of(await Consumer(client, [SHARED], "w").read(9, BLOCK_MS)) == [1]
    assert await left(client, SHARED) == (1, 1)


async def test_f089_reading_and_reclaiming_before_anything_exists_make_the_group(
    client: Redis,
) -> None:
    assert await Consumer(client, [SHARED], "w").reclaim(0, 9) == []
    assert await Consumer(client, [SLOW], "w").read(1, BLOCK_MS) == []
    for stream in (SHARED, SLOW):
        assert len(await client.xinfo_groups(str(stream))) == 1


async def test_f087_a_consumer_goes_on_after_redis_lost_everything(client: Redis) -> None:
    clock = WaitLog()
    consumer = Consumer(client, [SHARED], "w", clock=clock)
    assert await consumer.read(1, BLOCK_MS) == []
    await client.flushdb()
    assert await consumer.read(1, BLOCK_MS) == []
    await publish(client, SHARED, 1)
    assert steps_of(await consumer.read(1, BLOCK_MS)) == [1]
    assert len(clock.waits) == 1


async def test_f086_entries_added_before_the_group_was_made_again_are_delivered(
    client: Redis,
) -> None:
    consumer = Consumer(client, [SHARED], "w", clock=WaitLog())
    await publish(client, SHARED, 2)
    await consumer.read(1, BLOCK_MS)
    await client.xgroup_destroy(str(SHARED), GROUP)
    assert await consumer.read(9, BLOCK_MS) == []
    assert steps_of(await consumer.read(9, BLOCK_MS)) == [1, 2]


async def test_f086_a_group_that_keeps_vanishing_is_made_with_growing_waits(
    client: Redis,
) -> None:
    clock = WaitLog()
    consumer = Consumer(client, [SHARED], "w", clock=clock, jitter=lambda: 0.999)
    await make_group(client, SHARED)
    for _ in range(12):
        with arm("streams.xreadgroup", "before", LoseGroup(client)):
            assert await consumer.read(1, BLOCK_MS) == []
    assert clock.waits == sorted(clock.waits)
    assert clock.waits[-1] > 0.9 * MISSING_GROUP_BACKOFF.cap
    assert await consumer.read(1, BLOCK_MS) == []
    assert len(clock.waits) == 12


class LoseGroup:
    """At a fail point, takes the group away just before it is used."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def run(self, point: str) -> None:
        await self._client.xgroup_destroy(str(SHARED), GROUP)

    def run_sync(self, point: str) -> None:
        raise NotImplementedError


async def test_a_user_that_may_not_make_groups_is_told(client: Redis, redis_url: str) -> None:
    await client.acl_setuser(
        "no-groups", enabled=True, nopass=True, keys=["*"], categories=["+@all"]
    )
    await client.execute_command("ACL", "SETUSER", "no-groups", "-xgroup")  # type: ignore[no-untyped-call]
    url = redis_url.replace("redis://", "redis://no-groups:any@")
    limited = await open_streams(url, client_name="test")
    with pytest.raises(FailedPrecondition):
        await Consumer(limited, [SHARED], "w").read(1, BLOCK_MS)
    await limited.aclose()
    await client.acl_deluser("no-groups")


async def test_a_blocking_read_beyond_the_socket_timeout_is_refused(client: Redis) -> None:
    with pytest.raises(ValueError, match="block_ms"):
        await Consumer(client, [SHARED], "w").read(1, 60_000)
