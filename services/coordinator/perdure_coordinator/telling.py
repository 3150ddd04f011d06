"""What tries tell of their connections, counted after their reports were written.

It is counted in a transaction that locks no run (p8). What is lost when this process dies is a
count of failures, or a probe, which another one follows once its lease is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import asyncpg
from perdure_machine.capacity import Tried
from perdure_machine.replies import Applied, Reply
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log_failure
from perdure_store.connection_tries import tell
from perdure_store.pool import acquire

MAX_TOLD = 256
"""Tries that one transaction counts at most."""

_logger = logging.getLogger(__name__)


class Telling(Component):
    """Counts tries of connections; `freed` is called when that may have let steps go."""

    def __init__(self, spare: asyncpg.Pool, freed: Callable[[], None]) -> None:
        super().__init__()
        self._batcher: Batcher[tuple[str, Tried], None] = Batcher(
            partial(_tell, spare, freed), MAX_TOLD
        )
        self._under_way: set[asyncio.Task[None]] = set()

    async def on_start(self) -> None:
        """Count from now on."""
        await self._batcher.start()

    async def on_stop(self) -> None:
        """Count what was told."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._batcher.stop()

    def note(self, org: str, reply: Reply) -> None:
        """Count what an answer tells of a connection, if it does; nobody waits for it."""
        if isinstance(reply, Applied) and reply.tried is not None:
            task = asyncio.create_task(self._submit(org, reply.tried))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _submit(self, org: str, tried: Tried) -> None:
        try:
            await self._batcher.submit((org, tried))
        except PerdureError as error:
            log_failure(_logger, "connection.not_told", error, connection=tried.connection)


async def _tell(
    spare: asyncpg.Pool, freed: Callable[[], None], batch: list[tuple[str, Tried]]
) -> list[None]:
    async with acquire(spare) as connection:
        await tell(connection, batch)
    freed()
    return [None] * len(batch)
