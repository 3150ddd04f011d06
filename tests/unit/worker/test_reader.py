"""A reader knows whether entries are rare, and leaves room to others only then."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import cast

import pytest
from perdure_runtime.clock import FakeClock
from perdure_streams.consumer import Consumer, Entry
from perdure_streams.message import Hint
from perdure_streams.names import Queue
from perdure_worker.begun import Begun
from perdure_worker.reader import QUIET_SECONDS, Reader
from perdure_worker.slots import Slots

SLOTS = 8
LONG = 2 * QUIET_SECONDS
ENTRY = Entry(Queue("io", "a").streams(1)[0], "1-0", Hint("a", uuid.UUID(int=1), 1))


class Source:
    """Gives a reader what a test says, and records how many entries were asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.brought: asyncio.Queue[list[Entry]] = asyncio.Queue()

    async def read(self, count: int, block_ms: int) -> list[Entry]:
        self.asked.append(count)
        return await self.brought.get()

    async def reclaim(self, min_idle_ms: int, count: int) -> list[Entry]:
        return []


class Scene:
    def __init__(self, *, leaves_room: bool = True) -> None:
        self.source, self.clock, self.slots = Source(), FakeClock(), Slots(SLOTS)
        self.reader = Reader(
            cast(Consumer, self.source),
            self.slots,
            Begun(self.slots),
            lambda: True,
            self._take,
            10.0,
            self.clock,
            leaves_room=leaves_room,
        )
        self.let_go = asyncio.Event()

    async def _take(self, entry: Entry) -> None:
        await self.let_go.wait()

    async def read(self, brings: list[Entry], after: float) -> None:
        """Let a read take so many seconds."""
        reading = asyncio.create_task(self.reader.read_once())
        await asyncio.wait((reading,), timeout=0)
        await self.clock.advance(after)
        self.source.brought.put_nowait(brings)
        await reading


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    made.let_go.set()


async def test_it_is_quiet_while_a_read_waits_for_long(scene: Scene) -> None:
    reading = asyncio.create_task(scene.reader.read_once())
    await asyncio.wait((reading,), timeout=0)
    seen = [(scene.reader.is_quiet, scene.reader.asked)]
    await scene.clock.advance(LONG)
    seen.append((scene.reader.is_quiet, scene.reader.asked))
    assert seen == [(False, SLOTS), (True, SLOTS)]
    scene.source.brought.put_nowait([])
    await reading
    assert scene.reader.asked == 0


async def test_it_stays_quiet_after_an_entry_that_was_waited_for(scene: Scene) -> None:
    await scene.read([ENTRY], after=LONG)
    assert scene.reader.is_quiet
    assert scene.slots.used == 1


async def test_it_is_not_quiet_while_entries_come_at_once(scene: Scene) -> None:
    await scene.read([], after=LONG)
    await scene.read([ENTRY], after=QUIET_SECONDS / 2)
    assert not scene.reader.is_quiet


async def test_half_of_what_is_free_is_left_to_others_while_it_is_quiet(scene: Scene) -> None:
    await scene.read([], after=LONG)
    await scene.read([ENTRY], after=0.0)
    await scene.read([ENTRY], after=0.0)
    assert scene.source.asked == [SLOTS, SLOTS // 2, SLOTS - 1]


async def test_a_reader_that_has_nobody_beside_it_asks_for_all_that_is_free() -> None:
    scene = Scene(leaves_room=False)
    for _ in range(2):
        await scene.read([], after=LONG)
    assert scene.source.asked == [SLOTS, SLOTS]
