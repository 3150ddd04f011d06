"""The worker as one component: what starts after what, and in which order it all ends.

Drain: read no more, begin no more, take no next steps, and let what runs finish. Stop: hand back
what still runs, at once. Reports and renewals end last, when no step is left (F064, F065).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from perdure_runtime.lifecycle import Component, Group, Service
from perdure_runtime.logs import log

from perdure_worker.pools import Pool

RELEASE_SECONDS = 2.0
"""How long releases and last reports may take once the worker is told to stop; with the waits below
and those of the executors it stays under what a process that is forced to end is given."""

LAST_WAIT_SECONDS = 0.4

_logger = logging.getLogger(__name__)


class Worker(Component):
    """Starts its parts, and ends them so that no result is lost.

    `foundation` is needed until the last step has ended: executors, renewals and what sends to the
    coordinator, in the order in which they start.
    """

    def __init__(self, foundation: Sequence[Service], pools: Sequence[Pool]) -> None:
        super().__init__()
        self._foundation = Group(foundation)
        self._pools = tuple(pools)

    async def on_start(self) -> None:
        """Begin to read once everything that a step needs is there."""
        await self._foundation.start()
        try:
            for pool in self._pools:
                await pool.take()
        except BaseException:
            await self._take_no_more()
            await self._foundation.stop()
            raise

    async def drain(self) -> None:
        """Take nothing new and return when the last step has ended."""
        await self._take_no_more()
        for pool in self._pools:
            await pool.slots.wait_idle()

    async def on_stop(self) -> None:
        """Hand back what still runs, then end."""
        try:
            await self._take_no_more()
            await self._release_rest()
        finally:
            await self._foundation.stop()

    async def _take_no_more(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for pool in self._pools:
                tasks.create_task(pool.take_no_more())

    async def _release_rest(self) -> None:
        for pool in self._pools:
            pool.steps.release_all()
        left = await self._wait_for_tasks(RELEASE_SECONDS)
        # The second time ends those that wait for a handler which does not end.
        for _ in range(2):
            for task in left:
                task.cancel()
            left = await self._wait_for_tasks(LAST_WAIT_SECONDS)
        if left:
            log(_logger, "worker.left_behind", level=logging.WARNING, tasks=len(left))

    async def _wait_for_tasks(self, timeout: float) -> frozenset[asyncio.Task[None]]:
        tasks = self._tasks()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        return self._tasks()

    def _tasks(self) -> frozenset[asyncio.Task[None]]:
        return frozenset(task for pool in self._pools for task in pool.tasks)
