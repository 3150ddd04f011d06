import asyncio

from perdure_runtime.clock import FakeClock, SystemClock


async def test_advance_returns_after_due_waiters_have_gone_on() -> None:
    clock, log = FakeClock(), list[tuple[str, float]]()
    start = clock.monotonic()

    async def waiter(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        log.append((name, clock.monotonic() - start))

    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 3.0), ("soon", 1.0), ("next", 2.0)):
            tasks.create_task(waiter(name, seconds))
        await clock.blocked(3)
        await clock.advance(2.5)
        assert log == [("soon", 1.0), ("next", 2.0)]
        await clock.advance(0.5)
    assert log[-1] == ("late", 3.0)


async def test_what_a_waiter_schedules_within_the_advance_fires_too() -> None:
    clock, ticks = FakeClock(0.0), list[float]()

    async def tick() -> None:
        for _ in range(3):
            await clock.sleep(1.0)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(tick())
    await clock.blocked()
    await clock.advance(10.0)
    await task
    assert ticks == [1.0, 2.0, 3.0]
    assert clock.monotonic() == 10.0


async def test_a_fake_wait_ends_by_event_or_by_time() -> None:
    clock, event = FakeClock(), asyncio.Event()
    timed_out = asyncio.create_task(clock.wait(event, 5.0))
    await clock.blocked()
    await clock.advance(5.0)
    assert await timed_out is False
    signalled = asyncio.create_task(clock.wait(event, None))
    await clock.blocked()
    event.set()
    assert await signalled is True
    assert await clock.wait(event, 1.0) is True


async def test_a_cancelled_fake_sleep_leaves_nothing_behind() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1.0))
    await clock.blocked()
    task.cancel()
    await asyncio.wait([task])
    await clock.advance(2.0)
    assert task.cancelled()


async def test_the_system_clock_waits_for_an_event_or_a_time() -> None:
    clock, event = SystemClock(), asyncio.Event()
    before = clock.monotonic()
    assert await clock.wait(event, 0.01) is False
    assert clock.monotonic() - before >= 0.009
    event.set()
    assert await clock.wait(event, None) is True
