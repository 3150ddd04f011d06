"""The worker as one component: what starts after what, and in which order it all ends.

Drain: read no more, begin no more, take no next steps, and let what runs finish. Stop: hand back
what still runs, at once. Reports and renewals end last, when no step is left (F064, F065).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from perdure_runtime.errors import Unavailable
from perdure_runtime.lifecycle import Component, Group, Service
from perdure_runtime.logs import log, log_failure

from perdure_worker.announcements import Announcements
from perdure_worker.reader import Reader
from perdure_worker.slots import Slots
from perdure_worker.steps import Steps

RELEASE_SECONDS = 2.0
"""How long releases and last reports may take once the worker is told to stop; with the waits below
and those of the executors it stays under what a process that is forced to end is given."""

LAST_WAIT_SECONDS = 0.4

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker consists of. `foundation` is needed until the last step has ended: executors,
    renewals and what sends to the coordinator, in the order in which they start.
    """

    foundation: Sequence[Service]
    lanes: Service
    steps: Steps
    slots: Slots
    reader: Reader
    announcements: Announcements


class Worker(Component):
    """Starts the parts, and ends them so that no result is lost."""

    def __init__(self, parts: WorkerParts) -> None:
        super().__init__()
        self._parts = parts
        self._foundation = Group(parts.foundation)
        self._intake = Group((parts.lanes, parts.announcements, parts.reader))

    async def on_start(self) -> None:
        """Begin to read once everything that a step needs is there."""
        await self._foundation.start()
        try:
            await self._intake.start()
        except BaseException:
            await self._foundation.stop()
            raise

    async def drain(self) -> None:
        """Take nothing new and return when the last step has ended."""
        await self._take_no_more()
        await self._parts.slots.wait_idle()

    async def on_stop(self) -> None:
        """Hand back what still runs, then end."""
        try:
            await self._take_no_more()
            await self._release_rest()
        finally:
            await self._foundation.stop()

    async def _take_no_more(self) -> None:
        self._parts.steps.drain()
        await self._parts.reader.drain()
        try:
            await self._intake.stop()
            await self._parts.announcements.withdraw()
        except Unavailable as trouble:
            # The announcement runs out by itself.
            log_failure(_logger, "worker.not_withdrawn", trouble)

    async def _release_rest(self) -> None:
        self._parts.steps.release_all()
        left = await self._wait_for_tasks(RELEASE_SECONDS)
        # The second time ends those that wait for a handler which does not end.
        for _ in range(2):
            for task in left:
                task.cancel()
            left = await self._wait_for_tasks(LAST_WAIT_SECONDS)
        if left:
            log(_logger, "worker.left_behind", level=logging.WARNING, tasks=len(left))

    async def _wait_for_tasks(self, timeout: float) -> frozenset[asyncio.Task[None]]:
        tasks = self._parts.reader.tasks
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        return self._parts.reader.tasks
