import asyncio
from collections.abc import Awaitable, Callable

import pytest
from perdure_runtime.lifecycle import Component, Group, Service, finish


class Recorder(Component):
    """Notes what happens to it; `held` and `broken` name the step that waits or raises."""

    def __init__(self, name: str, log: list[str], *, held: str = "", broken: str = "") -> None:
        super().__init__()
        self.name, self.log, self.held, self.broken = name, log, held, broken
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    async def on_start(self) -> None:
        await self._step("start")

    async def drain(self) -> None:
        await self._step("drain")

    async def on_stop(self) -> None:
        await self._step("stop")

    async def _step(self, step: str) -> None:
        if step == self.held:
            self.reached.set()
            await self.release.wait()
        self.log.append(f"{self.name}.{step}")
        if step == self.broken:
            raise OSError(f"{self.name} is broken")


async def test_the_contract_holds_in_every_order(
    startstop_stress: Callable[[Service], Awaitable[None]],
) -> None:
    log = list[str]()
    await startstop_stress(Recorder("a", log))
    steps = [step for step in log if step != "a.drain"]
    assert steps == ["a.start", "a.stop"] * (len(steps) // 2)


async def test_a_group_keeps_the_contract_too(
    startstop_stress: Callable[[Service], Awaitable[None]],
) -> None:
    log = list[str]()
    await startstop_stress(Group([Recorder("a", log), Recorder("b", log)]))
    steps = [step for step in log if "drain" not in step]
    assert steps == ["a.start", "b.start", "b.stop", "a.stop"] * (len(steps) // 4)


async def test_stop_waits_for_a_start_that_still_runs() -> None:
    log = list[str]()
    component = Recorder("a", log, held="start")
    start = asyncio.create_task(component.start())
    await component.reached.wait()
    stop = asyncio.create_task(component.stop())
    component.release.set()
    await asyncio.gather(start, stop)
    assert log == ["a.start", "a.stop"]
    assert not component.is_started


async def test_a_second_stop_waits_for_the_first() -> None:
    log = list[str]()
    component = Recorder("a", log, held="stop")
    await component.start()
    first = asyncio.create_task(component.stop())
    await component.reached.wait()
    second = asyncio.create_task(component.stop())
    done, _ = await asyncio.wait([second], timeout=0.01)
    assert not done
    component.release.set()
    await asyncio.gather(first, second)
    assert log == ["a.start", "a.stop"]


async def test_a_member_that_cannot_start_stops_those_before_it() -> None:
    log = list[str]()
    group = Group([Recorder("a", log), Recorder("b", log, broken="start"), Recorder("c", log)])
    with pytest.raises(OSError, match="b is broken"):
        await group.start()
    assert log == ["a.start", "b.start", "a.stop"]
    assert not group.is_started


async def test_all_members_are_stopped_even_if_one_cannot() -> None:
    log = list[str]()
    group = Group([Recorder("a", log), Recorder("b", log, broken="stop"), Recorder("c", log)])
    await group.start()
    with pytest.raises(ExceptionGroup) as raised:
        await group.stop()
    assert log[3:] == ["c.stop", "b.stop", "a.stop"]
    assert [str(error) for error in raised.value.exceptions] == ["b is broken"]
    assert not group.is_started


async def test_members_drain_at_the_same_time() -> None:
    log = list[str]()
    held = Recorder("a", log, held="drain")
    group = Group([held, Recorder("b", log)])
    await group.start()
    drain = asyncio.create_task(group.drain())
    await held.reached.wait()
    held.release.set()
    await drain
    assert log[2:] in (["b.drain", "a.drain"], ["a.drain", "b.drain"])
    await group.stop()


async def test_cancelling_the_wait_for_a_task_cancels_the_task_and_waits_for_it() -> None:
    ended, began = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(work())
    waiting = asyncio.create_task(finish(task))
    await began.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
