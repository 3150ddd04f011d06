"""When wake-ups are sent: at once for what lets work begin, later for news of runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest
from perdure_coordinator.wakeups import (
    OUTBOX,
    PROGRESS_SECONDS,
    RUNS,
    WATCHERS_SECONDS,
    WakeUps,
)
from perdure_runtime.clock import FakeClock
from perdure_testkit.database import Database

LAST = "the last"


@dataclass(frozen=True, slots=True)
class Scene:
    """Wake-ups whose clock the test moves, and a connection that hears them."""

    wake_ups: WakeUps
    clock: FakeClock
    listening: asyncpg.Connection
    heard: asyncio.Queue[str]

    async def told(self) -> list[str]:
        """What was told up to now, in order: a channel delivers in the order of commits."""
        await self.listening.execute(f"NOTIFY {RUNS}, '{LAST}'")
        told: list[str] = []
        async with asyncio.timeout(10):
            while (one := await self.heard.get()) != LAST:
                told.append(one)
        return told

    async def next(self) -> str:
        async with asyncio.timeout(10):
            return await self.heard.get()


@pytest.fixture
async def scene(database: Database) -> AsyncIterator[Scene]:
    heard: asyncio.Queue[str] = asyncio.Queue()

    def hear(_connection: object, _pid: int, channel: str, payload: object) -> None:
        heard.put_nowait(LAST if payload == LAST else channel)

    listening = await database.connect()
    for channel in (RUNS, OUTBOX):
        await listening.add_listener(channel, hear)
    clock = FakeClock()
    wake_ups = WakeUps(database.url("coordinator"), clock)
    await wake_ups.start()
    yield Scene(wake_ups, clock, listening, heard)
    await wake_ups.stop()


async def test_that_a_run_went_on_is_told_when_the_news_had_time_to_gather(scene: Scene) -> None:
    scene.wake_ups.plainly_written(ended=False)
    await scene.clock.advance(0.9 * PROGRESS_SECONDS)
    scene.wake_ups.plainly_written(ended=False)
    assert await scene.told() == []
    await scene.clock.advance(0.2 * PROGRESS_SECONDS)
    assert await scene.next() == RUNS
    assert await scene.told() == []


async def test_that_a_run_ended_is_told_sooner_and_with_it_what_gathers(scene: Scene) -> None:
    scene.wake_ups.plainly_written(ended=False)
    scene.wake_ups.plainly_written(ended=True)
    await scene.clock.advance(WATCHERS_SECONDS)
    assert await scene.next() == RUNS
    await scene.clock.advance(PROGRESS_SECONDS)
    assert await scene.told() == []


async def test_f073_that_rows_are_ready_is_told_at_once_and_with_it_what_gathers(
    scene: Scene,
) -> None:
    scene.wake_ups.plainly_written(ended=True)
    scene.wake_ups.rows_ready()
    await scene.clock.advance(0)
    assert {await scene.next(), await scene.next()} == {OUTBOX, RUNS}
    await scene.clock.advance(PROGRESS_SECONDS)
    assert await scene.told() == []
