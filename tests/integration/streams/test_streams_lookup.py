import uuid

import pytest
from perdure_runtime.errors import Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_streams.consumer import Consumer
from perdure_streams.groups import forget_consumers
from perdure_streams.lookup import find_deliverable
from perdure_streams.message import Hint
from perdure_streams.names import GROUP, Queue, StreamName
from perdure_streams.producer import Producer
from redis.asyncio import Redis

STREAM = StreamName(Queue("io", "shared"), 0)
RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")
HINTS = [Hint("acme", RUN, step) for step in (1, 2, 3)]


@pytest.fixture
async def ids(client: Redis) -> list[str]:
    """Three entries that nobody has read."""
    producer = Producer(client)
    await producer.begin_memory(STREAM)
    return await producer.publish(STREAM, HINTS)


@pytest.fixture
def worker(client: Redis) -> Consumer:
    return Consumer(client, [STREAM], "worker")


async def test_entries_that_wait_or_are_pending_will_be_delivered(
    client: Redis, ids: list[str], worker: Consumer
) -> None:
    await worker.read(2, 1)
    found = await find_deliverable(client, STREAM, [*ids, "1-1"])
    assert found == dict(zip(ids, HINTS, strict=True))


async def test_entries_that_were_settled_are_not_found(
    client: Redis, ids: list[str], worker: Consumer
) -> None:
    await worker.settle(await worker.read(2, 1))
    assert list(await find_deliverable(client, STREAM, ids)) == ids[2:]


async def test_an_entry_that_is_pending_with_nobody_is_removed_and_not_found(
    client: Redis, ids: list[str], worker: Consumer
) -> None:
    await worker.read(2, 1)
    await client.xgroup_delconsumer(str(STREAM), GROUP, "worker")
    with arm("streams.drop_orphans", "before", Raise()), pytest.raises(Unavailable):
        await find_deliverable(client, STREAM, ids)
    assert list(await find_deliverable(client, STREAM, ids)) == ids[2:]
    assert await client.xlen(str(STREAM)) == 1


async def test_without_a_group_every_entry_will_be_delivered(
    client: Redis, ids: list[str], worker: Consumer
) -> None:
    await worker.read(2, 1)
    await client.xgroup_destroy(str(STREAM), GROUP)
    assert list(await find_deliverable(client, STREAM, ids)) == ids


async def test_without_the_stream_nothing_is_found(client: Redis, ids: list[str]) -> None:
    await client.delete(str(STREAM))
    assert await find_deliverable(client, STREAM, ids) == {}


async def test_members_that_hold_nothing_and_do_not_read_are_forgotten(
    client: Redis, ids: list[str], worker: Consumer
) -> None:
    await worker.read(1, 1)
    idle = Consumer(client, [STREAM], "idle")
    await idle.settle(await idle.read(1, 1))
    assert await forget_consumers(client, STREAM, 3_600_000) == 0
    assert await forget_consumers(client, STREAM, 0) == 1
    members = await client.xinfo_consumers(str(STREAM), GROUP)
    assert [member["name"] for member in members] == [b"worker"]
