"""How much room a worker announces: what is free, and what will be if steps go on ending so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from perdure_runtime.clock import FakeClock
from perdure_streams.announce import Announcer
from perdure_streams.names import Queue
from perdure_worker.announcements import AHEAD_SECONDS, Announcements
from perdure_worker.pool_plans import PoolPlan
from perdure_worker.slots import Slots

QUEUE = Queue("io", "default")


class Heard(Announcer):
    """Keeps what is announced, in place of Redis."""

    def __init__(self) -> None:
        self.rooms: list[int] = []

    async def announce(self, free: Mapping[Queue, int]) -> None:
        self.rooms.append(free[QUEUE])


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def slots() -> Slots:
    return Slots(100)


@pytest.fixture
async def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def announcements(heard: Heard, slots: Slots, clock: FakeClock) -> Announcements:
    return Announcements(heard, PoolPlan("io", slots.capacity, (QUEUE,)), slots, clock)


def turn_over(slots: Slots, steps: int) -> None:
    """Have so many steps end and as many others begin."""
    for _ in range(steps):
        slots.give_back()
        slots.take()


async def said(announcements: Announcements, clock: FakeClock) -> None:
    saying = asyncio.create_task(announcements.announce_once())
    await clock.advance(1)
    await saying


async def test_slots_of_steps_that_take_long_are_not_announced(
    announcements: Announcements, heard: Heard, slots: Slots, clock: FakeClock
) -> None:
    for _ in range(90):
        slots.take()
    await said(announcements, clock)
    assert heard.rooms == [10]


async def test_slots_that_are_given_back_all_the_time_are_announced_ahead(
    announcements: Announcements, heard: Heard, slots: Slots, clock: FakeClock
) -> None:
    for _ in range(90):
        slots.take()
    await clock.advance(2 * AHEAD_SECONDS)
    turn_over(slots, 30)
    await said(announcements, clock)
    await said(announcements, clock)
    assert heard.rooms == [10 + 15, 10]


async def test_no_more_is_announced_than_there_are_slots(
    announcements: Announcements, heard: Heard, slots: Slots, clock: FakeClock
) -> None:
    for _ in range(90):
        slots.take()
    await clock.advance(AHEAD_SECONDS)
    turn_over(slots, 1000)
    await said(announcements, clock)
    assert heard.rooms == [100]
