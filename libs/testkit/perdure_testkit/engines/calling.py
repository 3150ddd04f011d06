"""The start of a child one step at a time: whoever does it may die after each of them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from perdure_machine.events import ChildStarted, FireTimer
from perdure_machine.replies import ChildWanted, Reply
from perdure_machine.states import TimerKind

from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.port import Timer


@dataclass(frozen=True, slots=True)
class Asked:
    """A start of a child that `run` asked for, which nobody has done yet."""

    parent: Driver
    run: UUID
    timer: Timer
    wanted: ChildWanted

    async def begun(self) -> ChildStarted:
        """Start the child; the parent is not told."""
        answer = await self.parent.engine.answer(self.parent.org, self.wanted)
        assert isinstance(answer, ChildStarted)
        return answer

    async def ask_again(self) -> Reply:
        """Deliver the timer of the start once more."""
        return await self.parent.submit(self.run, FireTimer(self.timer.timer_id))


async def start_timer(parent: Driver) -> Timer:
    """Return the one timer that asks for the start of a child."""
    (timer,) = [one for one in await parent.engine.timers() if one.kind is TimerKind.START_CHILD]
    return timer


async def asked(parent: Driver, run: UUID) -> Asked:
    """Deliver the timer that asks for the start of a child of `run`."""
    timer = await start_timer(parent)
    reply = await parent.submit(run, FireTimer(timer.timer_id))
    assert isinstance(reply, ChildWanted)
    return Asked(parent, run, timer, reply)
