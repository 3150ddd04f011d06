import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import FakeClock
from perdure_runtime.errors import Reason, Unavailable
from perdure_runtime.lifecycle import Service
from perdure_runtime.loop import Loop, LoopSettings, Pass

SETTINGS = LoopSettings(interval=10.0, spread=0.0, backoff=Backoff(base=1.0, factor=2.0, cap=4.0))


class Work:
    """A pass that follows a script, then does nothing; `at` are the instants of the passes."""

    def __init__(self, clock: FakeClock, *script: Pass | Exception) -> None:
        self.clock, self.script, self.at = clock, list(script), list[float]()

    async def __call__(self) -> Pass:
        self.at.append(self.clock.monotonic())
        step = self.script.pop(0) if self.script else Pass()
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0.0)


def make_loop(work: Work, settings: LoopSettings = SETTINGS, jitter: float = 0.0) -> Loop:
    return Loop("test", work, settings, clock=work.clock, jitter=lambda: jitter)


async def test_a_loop_ticks_at_its_interval(clock: FakeClock) -> None:
    work = Work(clock)
    loop = make_loop(work)
    await loop.start()
    await clock.blocked()
    await clock.advance(25.0)
    await loop.stop()
    assert work.at == [0.0, 10.0, 20.0]


async def test_the_spread_shortens_the_interval(clock: FakeClock) -> None:
    work = Work(clock)
    loop = make_loop(work, LoopSettings(interval=10.0, spread=0.5), jitter=0.8)
    await loop.start()
    await clock.blocked()
    await clock.advance(6.0)
    await loop.stop()
    assert work.at == [0.0, 6.0]


async def test_a_full_pass_is_followed_at_once_by_the_next(clock: FakeClock) -> None:
    work = Work(clock, Pass({"rows": 500}, more=True), Pass({"rows": 500}, more=True))
    loop = make_loop(work)
    await loop.start()
    await clock.blocked()
    await loop.stop()
    assert work.at == [0.0, 0.0, 0.0]


async def test_wake_ups_bring_one_pass_at_once(clock: FakeClock) -> None:
    work, passes = Work(clock), asyncio.Queue[Pass | Exception]()
    loop = Loop("test", work, SETTINGS, clock=clock, observe=passes.put_nowait)
    await loop.start()
    await passes.get()
    await clock.blocked()
    await clock.advance(3.0)
    loop.wake()
    loop.wake()
    await passes.get()
    await clock.advance(9.0)
    await loop.stop()
    assert work.at == [0.0, 3.0]


async def test_a_wake_up_during_a_pass_is_not_lost(clock: FakeClock) -> None:
    passes = asyncio.Queue[int]()

    async def run_once() -> Pass:
        passes.put_nowait(1)
        if passes.qsize() == 1:
            loop.wake()
        return Pass()

    loop = Loop("test", run_once, SETTINGS, clock=clock)
    await loop.start()
    await clock.blocked()
    await loop.stop()
    assert passes.qsize() == 2


async def test_failures_back_off_and_a_success_ends_the_backing_off(clock: FakeClock) -> None:
    down = Unavailable("down", reason=Reason.STORE_UNAVAILABLE)
    work = Work(clock, down, down, down, down, Pass())
    loop = make_loop(work)
    await loop.start()
    await clock.blocked()
    await clock.advance(30.0)
    await loop.stop()
    assert work.at == [0.0, 1.0, 2.0, 3.0, 4.0, 14.0, 24.0]


async def test_a_fault_that_lasts_is_logged_when_it_begins_changes_and_ends(
    clock: FakeClock, logged: Callable[[str], list[dict[str, Any]]]
) -> None:
    down = Unavailable("down", reason=Reason.STORE_UNAVAILABLE)
    work = Work(clock, down, down, ValueError("bug"), ValueError("bug"), Pass({"rows": 2}))
    loop = make_loop(work)
    await loop.start()
    await clock.blocked()
    await clock.advance(8.0)
    await loop.stop()
    failed = logged("loop.failed")
    assert [line.get("reason", line.get("error_type")) for line in failed] == [
        "STORE_UNAVAILABLE",
        "ValueError",
    ]
    assert "stack" not in failed[0]
    assert "bug" in failed[1]["stack"]
    assert logged("loop.recovered")[0]["failures"] == 4
    assert logged("loop.pass")[0]["rows"] == 2


async def test_the_observer_hears_of_passes_and_failures(clock: FakeClock) -> None:
    heard = list[Pass | Exception]()
    failure, done = ValueError("bug"), Pass({"rows": 1})
    work = Work(clock, failure, done)
    loop = Loop("test", work, SETTINGS, clock=clock, jitter=lambda: 0.0, observe=heard.append)
    await loop.start()
    await clock.blocked()
    await clock.advance(1.0)
    await loop.stop()
    assert heard == [failure, done]


async def test_stop_lets_the_pass_in_flight_finish(clock: FakeClock) -> None:
    reached, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run_once() -> Pass:
        reached.set()
        await release.wait()
        finished.set()
        return Pass(more=True)

    loop = Loop("test", run_once, SETTINGS, clock=clock)
    await loop.start()
    await reached.wait()
    stop = asyncio.create_task(loop.stop())
    done, _ = await asyncio.wait([stop], timeout=0.01)
    assert not done
    release.set()
    await stop
    assert finished.is_set()


async def test_a_cancelled_stop_cancels_the_pass(clock: FakeClock) -> None:
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def run_once() -> Pass:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Pass()

    loop = Loop("test", run_once, SETTINGS, clock=clock)
    await loop.start()
    await reached.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await loop.stop()
    assert cancelled.is_set()
    await loop.stop()
    assert not loop.is_started


async def test_a_loop_keeps_the_start_stop_contract(
    clock: FakeClock, startstop_stress: Callable[[Service], Awaitable[None]]
) -> None:
    await startstop_stress(make_loop(Work(clock)))
