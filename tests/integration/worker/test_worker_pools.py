"""Several pools in one worker, and that nothing is leased that cannot begin."""

import asyncio
import threading
from typing import Any
from uuid import UUID

import perdure
from perdure_streams.message import Hint, encode
from perdure_streams.names import Queue
from perdure_testkit.waiting import eventually

from tests.integration.worker.fake_engine import RUN_ID, Stage, grant

POOLS = ("quick 2 io:default", "slow 1 slow:default")
SLOW = Queue("slow", "default")


class Held:
    """A handler whose steps begin and then wait."""

    def __init__(self) -> None:
        self.handlers = perdure.Handlers()
        self.handlers.add("work", self._work)
        self.begun: list[int] = []
        self._let_go = threading.Event()
        self._changed = asyncio.Event()
        self._home = asyncio.get_running_loop()

    def _work(self, given: Any, ctx: perdure.HandlerContext) -> None:
        self._home.call_soon_threadsafe(self._note, ctx.step)
        self._let_go.wait()

    def _note(self, step: int) -> None:
        self.begun.append(step)
        self._changed.set()

    async def until_begun(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.begun) < count:
                self._changed.clear()
                await self._changed.wait()

    def let_go(self) -> None:
        self._let_go.set()


async def hint_slow(stage: Stage, *steps: int) -> None:
    """Make steps ready on the slow lane."""
    for step in steps:
        stage.engine.grants[step] = grant(step)
        fields = encode(Hint("default", UUID(RUN_ID), step))
        await stage.redis.xadd(str(SLOW.streams(1)[0]), dict(fields))


async def test_f132_a_flood_of_one_pool_leaves_the_slots_of_another_free(stage: Stage) -> None:
    held = Held()
    await stage.start(held.handlers, pools=POOLS)
    await hint_slow(stage, 1, 2, 3)
    await held.until_begun(1)
    await stage.ready(grant(10))
    await stage.ready(grant(11))
    await held.until_begun(3)
    assert sorted(held.begun) == [1, 10, 11]
    (group,) = await stage.redis.xinfo_groups(str(SLOW.streams(1)[0]))
    assert group["lag"] == 2, "what has no slot of its pool stays in the stream for others"
    held.let_go()
    await stage.engine.until(lambda: len(stage.engine.reports) == 5)


async def test_a_pool_offers_next_steps_to_its_own_queues_alone(stage: Stage) -> None:
    held = Held()
    held.let_go()
    await stage.start(held.handlers, pools=POOLS)
    await stage.ready(grant(10))
    await hint_slow(stage, 1)
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)
    offered = {
        item.lease.step: list(call.queues)
        for call in stage.engine.report_calls
        for item in call.items
    }
    assert offered == {10: ["io:default"], 1: ["slow:default"]}


async def test_every_pool_announces_its_own_free_slots(stage: Stage) -> None:
    held = Held()
    worker = await stage.start(held.handlers, pools=POOLS)
    await hint_slow(stage, 1)
    await held.until_begun(1)
    io_key, slow_key = (queue.free_key("worker0") for queue in (Queue("io", "default"), SLOW))

    async def told() -> bool:
        return bool(await stage.redis.mget(io_key, slow_key) == [b"2", b"0"])

    await eventually(told)
    held.let_go()
    await worker.drain()
    assert await stage.redis.mget(io_key, slow_key) == [None, None]


async def test_nothing_is_leased_that_cannot_begin(stage: Stage) -> None:
    held = Held()
    await stage.start(held.handlers, slots=3)
    for step in range(1, 8):
        await stage.ready(grant(step))
    await held.until_begun(3)
    assert sorted(item.step for item in stage.engine.acquired) == sorted(held.begun)
    held.let_go()
    await stage.engine.until(lambda: len(stage.engine.reports) == 7)
    await stage.until_empty()
