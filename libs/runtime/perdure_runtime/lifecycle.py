"""One start/stop contract for everything that runs in a process.

- `start` returns when the component works; starting twice is harmless, also at the same moment.
- `drain` stops taking new work and returns when what is short has finished. It is optional.
- `stop` returns when nothing of the component runs any more. It may be called before `start`,
  twice, by several at once, and while `start` still runs; it always waits.
- A component that failed to start holds nothing, and one that was stopped may be started again.
- Cancelling `stop` ends the waiting and makes the component end at once; stopping it once more
  makes sure of it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol


class Service(Protocol):
    """What the contract asks for."""

    async def start(self) -> None:
        """Begin to work."""

    async def drain(self) -> None:
        """Stop taking new work."""

    async def stop(self) -> None:
        """End, and wait for the end."""


class Component(ABC):
    """Keeps the contract for a subclass that says only how to begin and how to end.

    `on_start` and `on_stop` never run at the same time and alternate. An `on_start` that raises
    must have released what it took.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._started = False

    @property
    def is_started(self) -> bool:
        """Whether `start` has succeeded and `stop` has not yet ended it."""
        return self._started

    async def start(self) -> None:
        """Begin to work, unless begun already."""
        async with self._turn:
            if not self._started:
                await self.on_start()
                self._started = True

    async def drain(self) -> None:  # noqa: B027 - many components take no work
        """Stop taking new work, if that means something here."""

    async def stop(self) -> None:
        """End if begun, and wait for the end."""
        async with self._turn:
            if self._started:
                try:
                    await self.on_stop()
                except Exception:
                    self._started = False
                    raise
                self._started = False

    @abstractmethod
    async def on_start(self) -> None:
        """Begin; called only when not begun."""

    @abstractmethod
    async def on_stop(self) -> None:
        """End; called only when begun."""


class Group(Component):
    """Members that start in order, drain together and stop in reverse order.

    When one fails to start, those before it are stopped again. All are stopped even if some raise;
    then an ExceptionGroup with their errors is raised.
    """

    def __init__(self, members: Sequence[Service]) -> None:
        super().__init__()
        self._members = tuple(members)
        self._running: list[Service] = []

    async def on_start(self) -> None:
        """Start each member after the one before it works."""
        try:
            for member in self._members:
                await member.start()
                self._running.append(member)
        except BaseException:
            await self._stop_running()
            raise

    async def drain(self) -> None:
        """Drain all members at once, since each may wait for its own work in flight."""
        async with asyncio.TaskGroup() as tasks:
            for member in tuple(self._running):
                tasks.create_task(member.drain())

    async def on_stop(self) -> None:
        """Stop each member before the one it was started after."""
        await self._stop_running()

    async def _stop_running(self) -> None:
        errors = list[Exception]()
        while self._running:
            try:
                await self._running[-1].stop()
            except Exception as error:  # noqa: BLE001 - raised below, when all are stopped
                errors.append(error)
            self._running.pop()
        if errors:
            raise ExceptionGroup("members failed to stop", errors)


async def finish(task: asyncio.Task[None]) -> None:
    """Wait until a task has ended; if the waiting is cancelled, cancel the task and wait for it."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    if not task.cancelled():
        task.result()
