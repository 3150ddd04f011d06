"""Work that was begun, each with a slot that it holds until nothing of it is left to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from perdure_runtime.logs import log

from perdure_worker.slots import Places

_logger = logging.getLogger(__name__)


class Begun:
    """Runs work beside whoever takes it, and gives its slot back at its end."""

    def __init__(self, slots: Places) -> None:
        self._slots = slots
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """What has not ended."""
        return frozenset(self._tasks)

    def begin(self, work: Awaitable[None], name: str) -> None:
        """Do `work`, for which a slot was taken; `name` is for people."""
        task = asyncio.create_task(self._do(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _do(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._slots.give_back()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            log(_logger, "entry.failed", level=logging.ERROR, exc_info=fault)
