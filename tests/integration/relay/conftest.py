from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from perdure_relay.dispatch import DispatchSettings
from perdure_relay.duties import Duty
from perdure_relay.parts import Parts, make_parts
from perdure_runtime.clock import FakeClock
from perdure_streams.announce import Announcer
from perdure_streams.client import open_streams
from perdure_streams.consumer import Consumer, Entry
from perdure_streams.names import Queue, StreamName
from perdure_testkit.database import Database
from perdure_testkit.outbox import Outbox
from redis.asyncio import Redis

BUFFER = 2


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    client = await open_streams(redis_url, client_name="test")
    yield client
    await client.aclose()


@pytest.fixture
async def outbox(database: Database) -> Outbox:
    return Outbox(await database.connect("coordinator"))


@pytest.fixture
def announcer(client: Redis) -> Announcer:
    """The voice of a worker that has said nothing yet."""
    return Announcer(client, "worker")


@pytest.fixture
def io() -> Queue:
    """The queue of built-in executors on the lane io."""
    return Queue("io", "shared")


@pytest.fixture
def stream(io: Queue) -> StreamName:
    """Its only stream."""
    return io.streams(1)[0]


@pytest.fixture
def clock() -> FakeClock:
    """The clock by which relays leave a refusing stream alone."""
    return FakeClock()


@pytest.fixture
async def make_relay(
    database: Database, client: Redis, clock: FakeClock
) -> AsyncIterator[Callable[[Redis], Awaitable[Parts]]]:
    """Makes a relay, under the relay's own role, that stands for election for every shard."""
    pool = await database.open_pool("relay")
    made: list[Parts] = []

    async def make(client: Redis) -> Parts:
        parts = make_parts(
            pool,
            client,
            f"relay {len(made)}",
            DispatchSettings(buffer=BUFFER, orgs_per_pass=64),
            clock=clock,
            jitter=lambda: 0.5,
        )
        made.append(parts)
        await parts.duties.start()
        return parts

    yield make
    for parts in made:
        await parts.duties.stop()


@pytest.fixture
async def relay(make_relay: Callable[[Redis], Awaitable[Parts]], client: Redis) -> Parts:
    """A relay that leads every shard; a test runs its passes one by one."""
    parts = await make_relay(client)
    for lane in ("io", "slow"):
        await parts.duties.wait_leading(Duty(lane, 0))
    return parts


@pytest.fixture
def dispatch(relay: Parts) -> Callable[[], Awaitable[int]]:
    """Runs passes until none is to follow at once; returns how many entries were published."""

    async def run() -> int:
        published = 0
        while True:
            done = await relay.dispatcher.run_once()
            published += done.counts.get("published", 0)
            if not done.more:
                return published

    return run


@pytest.fixture
def recheck(relay: Parts) -> Callable[[], Awaitable[int]]:
    """Looks for lost entries once; returns how many rows were made ready again."""

    async def run() -> int:
        return (await relay.recovery.run_once()).counts["redispatched"]

    return run


@pytest.fixture
def deliver(client: Redis) -> Callable[..., Awaitable[list[Entry]]]:
    """Delivers to a worker what is in the streams of a queue and was not yet delivered."""

    async def read(queue: Queue, shards: int = 1) -> list[Entry]:
        consumer = Consumer(client, queue.streams(shards), "worker")
        entries: list[Entry] = []
        while found := await consumer.read(1000, 1):
            entries += found
        return entries

    return read
