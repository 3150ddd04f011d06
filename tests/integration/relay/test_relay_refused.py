"""Redis refusing writes is its state, not the rows': they stay, the stream is left alone (p2)."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from perdure_relay.duties import Duty
from perdure_relay.parts import Parts
from perdure_runtime.clock import FakeClock
from perdure_runtime.errors import Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_stack.valkey import EmbeddedValkey
from perdure_streams.announce import Announcer
from perdure_streams.client import open_streams
from perdure_streams.names import Queue
from perdure_streams.producer import Producer
from perdure_testkit.outbox import Outbox
from prometheus_client import REGISTRY
from redis.asyncio import Redis

MakeRelay = Callable[[Redis], Awaitable[Parts]]


def refused(trouble: str) -> float:
    labels = {"lane": "io", "trouble": trouble}
    return REGISTRY.get_sample_value("perdure_relay_refused_total", labels) or 0.0


@pytest.fixture
async def own_client(own_valkey: EmbeddedValkey) -> AsyncIterator[Redis]:
    client = await open_streams(own_valkey.url, client_name="test")
    yield client
    await client.aclose()


@pytest.fixture
async def own_relay(make_relay: MakeRelay, own_client: Redis, io: Queue) -> Parts:
    """A relay at a Redis of the test's own, in which a worker announced a free slot."""
    parts = await make_relay(own_client)
    await parts.duties.wait_leading(Duty("io", 0))
    await parts.recovery.recover(io.streams(1)[0])
    await Announcer(own_client, "worker").announce({io: 5})
    return parts


@pytest.mark.parametrize(
    ("setting", "bad", "good"),
    [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")],
)
async def test_p2_rows_stay_ready_until_redis_takes_writes_again(
    own_relay: Parts, own_client: Redis, outbox: Outbox, clock: FakeClock,
    setting: str, bad: str, good: str,
) -> None:  # fmt: skip
    await outbox.add(3)
    before = refused("refusing_writes")
    await own_client.config_set(setting, bad)
    for _ in range(5):
        await own_relay.dispatcher.run_once()
    assert refused("refusing_writes") - before == 1, "the stream is left alone between two tries"
    assert await outbox.count("ready") == 3
    await own_client.config_set(setting, good)
    await clock.advance(60)
    assert (await own_relay.dispatcher.run_once()).counts["published"] == 3


async def test_p2_a_replica_that_is_read_only_is_waited_out(
    own_relay: Parts, own_client: Redis, outbox: Outbox, clock: FakeClock
) -> None:
    await outbox.add()
    before = refused("refusing_writes")
    await own_client.slaveof("127.0.0.1", 1)
    await own_relay.dispatcher.run_once()
    assert refused("refusing_writes") - before == 1
    assert await outbox.count("ready") == 1
    await own_client.slaveof()
    await clock.advance(60)
    assert (await own_relay.dispatcher.run_once()).counts["published"] == 1


async def test_p2_the_waits_grow_while_the_refusals_go_on(
    own_relay: Parts, outbox: Outbox, clock: FakeClock
) -> None:
    await outbox.add()
    before = refused("fail_point")
    with arm("streams.xadd", "before", Raise()):
        for _ in range(100):
            await own_relay.dispatcher.run_once()
            await clock.advance(0.1)
    tries = refused("fail_point") - before
    assert 3 < tries < 12, "ten seconds hold a few growing waits, not a hundred tries"


async def test_a_refused_stream_does_not_hold_up_another(
    make_relay: MakeRelay, own_client: Redis, own_valkey: EmbeddedValkey, outbox: Outbox, io: Queue
) -> None:
    slow = Queue("slow", "shared")
    await own_client.acl_setuser(
        "half", enabled=True, nopass=True, keys=["perdure:{slow*"], categories=["+@all"]
    )
    await own_client.execute_command("ACL", "SETUSER", "half", "%R~*")  # type: ignore[no-untyped-call]
    half = await open_streams(
        own_valkey.url.replace("redis://", "redis://half:any@"), client_name="test"
    )
    relay = await make_relay(half)
    for queue in (io, slow):
        await relay.duties.wait_leading(Duty(queue.lane, 0))
        await Producer(own_client).begin_memory(queue.streams(1)[0])
    await Announcer(own_client, "worker").announce({io: 5, slow: 5})
    (stuck,) = await outbox.add()
    (free,) = await outbox.add(queue=str(slow))
    await relay.dispatcher.run_once()
    assert await outbox.states() == {stuck: "ready", free: "sent"}
    await half.aclose()


async def test_f087_a_redis_that_is_away_and_comes_back_empty_gets_everything_again(
    own_relay: Parts, own_valkey: EmbeddedValkey, own_client: Redis, outbox: Outbox, io: Queue
) -> None:
    await outbox.add(3)
    assert (await own_relay.dispatcher.run_once()).counts["published"] == 3
    await own_valkey.kill()
    with pytest.raises(Unavailable):
        await own_relay.recovery.run_once()
    await outbox.add()
    with pytest.raises(Unavailable):
        await own_relay.dispatcher.run_once()
    await own_valkey.restart_empty()
    await Announcer(own_client, "worker").announce({io: 5})
    assert (await own_relay.recovery.run_once()).counts["redispatched"] == 3
    assert (await own_relay.dispatcher.run_once()).counts["published"] == 4
