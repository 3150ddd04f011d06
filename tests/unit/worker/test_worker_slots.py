import asyncio

import pytest
from perdure_worker.slots import Slots


async def test_a_slot_is_free_used_and_free_again_and_each_change_is_told() -> None:
    slots, seen = Slots(2), list[int]()
    slots.on_change(lambda: seen.append(slots.free))
    slots.take()
    slots.take()
    slots.give_back()
    assert seen == [1, 0, 1]
    assert (slots.capacity, slots.used) == (2, 1)


async def test_no_more_than_all_slots_are_taken() -> None:
    slots = Slots(1)
    slots.take()
    with pytest.raises(ValueError, match="no slot"):
        slots.take()


async def test_idle_is_when_the_last_slot_is_given_back() -> None:
    slots = Slots(2)
    await slots.wait_idle()
    slots.take()
    waiting = asyncio.create_task(slots.wait_idle())
    await asyncio.wait((waiting,), timeout=0)
    assert not waiting.done()
    slots.give_back()
    async with asyncio.timeout(10):
        await waiting
