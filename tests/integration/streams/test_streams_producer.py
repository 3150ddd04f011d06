import uuid

import pytest
from perdure_runtime.errors import FailedPrecondition, Reason, Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_stack.valkey import EmbeddedValkey
from perdure_streams.client import open_streams
from perdure_streams.errors import trouble_of
from perdure_streams.message import Hint
from perdure_streams.names import GROUP, Queue, StreamName
from perdure_streams.producer import Producer, StreamState
from perdure_streams.turn import Turn
from redis.asyncio import Redis

STREAM = StreamName(Queue("io", "shared"), 0)
RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")
HINTS = [Hint("acme", RUN, 1), Hint("acme", RUN, 2, "00-" + "1" * 32 + "-" + "2" * 16 + "-01")]


@pytest.fixture
async def producer(client: Redis) -> Producer:
    producer = Producer(client)
    await producer.begin_memory(STREAM)
    return producer


async def test_the_group_is_there_before_the_first_entry_f089(
    client: Redis, producer: Producer
) -> None:
    groups = await client.xinfo_groups(str(STREAM))
    assert [group["name"] for group in groups] == [GROUP.encode()]
    assert await producer.states([STREAM]) == [StreamState(depth=0, remembered=True)]


async def test_beginning_anew_keeps_what_is_there(producer: Producer) -> None:
    await producer.publish(STREAM, HINTS)
    await producer.begin_memory(STREAM)
    assert await producer.states([STREAM]) == [StreamState(depth=2, remembered=True)]


async def test_a_batch_is_added_whole_or_not_at_all(client: Redis, producer: Producer) -> None:
    with arm("streams.xadd", "before", Raise()), pytest.raises(Unavailable):
        await producer.publish(STREAM, HINTS)
    assert await client.xlen(str(STREAM)) == 0
    with arm("streams.xadd", "after", Raise()), pytest.raises(Unavailable):
        await producer.publish(STREAM, HINTS)
    assert await client.xlen(str(STREAM)) == 2


async def test_f086_a_stream_that_is_gone_is_not_made_anew_without_its_group(
    client: Redis, producer: Producer
) -> None:
    await client.delete(str(STREAM))
    with pytest.raises(Unavailable) as caught:
        await producer.publish(STREAM, HINTS)
    assert trouble_of(caught.value) == "stream_gone"
    assert await client.exists(str(STREAM)) == 0


async def test_f087_redis_that_lost_everything_says_so(client: Redis, producer: Producer) -> None:
    await client.flushdb()
    assert await producer.states([STREAM]) == [StreamState(depth=0, remembered=False)]


async def test_f086_a_server_that_may_evict_streams_is_refused_unless_told_otherwise(
    own_valkey: EmbeddedValkey, client: Redis
) -> None:
    admin = await open_streams(own_valkey.url, client_name="admin")
    await admin.config_set("maxmemory-policy", "allkeys-lru")
    await admin.aclose()
    with pytest.raises(FailedPrecondition, match="noeviction") as caught:
        await open_streams(own_valkey.url, client_name="test")
    assert caught.value.reason is Reason.CONFIG_INVALID
    allowed = await open_streams(own_valkey.url, client_name="test", allow_eviction=True)
    await allowed.aclose()


async def test_a_server_that_is_away_is_unavailable_until_it_is_back(
    own_valkey: EmbeddedValkey,
) -> None:
    client = await open_streams(own_valkey.url, client_name="test")
    producer = Producer(client)
    await producer.begin_memory(STREAM)
    await own_valkey.kill()
    with pytest.raises(Unavailable) as caught:
        await producer.publish(STREAM, HINTS)
    assert trouble_of(caught.value) == "unreachable"
    await own_valkey.start()
    assert len(await producer.publish(STREAM, HINTS)) == 2
    await client.aclose()


async def test_a_refused_password_is_told_without_showing_it(own_valkey: EmbeddedValkey) -> None:
    url = own_valkey.url.replace("redis://", "redis://somebody:secret@")
    with pytest.raises(FailedPrecondition) as caught:
        await open_streams(url, client_name="test")
    assert "secret" not in caught.value.message


async def test_whose_turn_it_is_is_kept_with_what_was_added(producer: Producer) -> None:
    await producer.publish(STREAM, HINTS, Turn("acme", 2))
    assert await producer.states([STREAM]) == [StreamState(2, True, Turn("acme", 2))]
    await producer.publish(STREAM, [], Turn("b", 1))
    assert await producer.states([STREAM]) == [StreamState(2, True, Turn("b", 1))]
