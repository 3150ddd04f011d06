"""LISTEN on a connection of its own: the coordinators' one coalesced wake-up after commits (P7).

A wake-up only says "look"; that none comes, or that the connection is away for a while, costs
latency and nothing else, since the watcher also looks by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import asyncpg
from perdure_runtime.lifecycle import Component
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_store.pool import open_connection

CHANNEL = "perdure_runs"
CHECK_SECONDS = 5.0
CLOSE_TIMEOUT = 2.0


class RunListener(Component):
    """Calls `wake` at each notification; `url` reaches the server itself, not a pooler."""

    def __init__(self, url: str, wake: Callable[[], None]) -> None:
        super().__init__()
        self._url = url
        self._wake = wake
        self._connection: asyncpg.Connection | None = None
        self._loop = Loop("ingest.listen", self.run_once, LoopSettings(interval=CHECK_SECONDS))

    async def run_once(self) -> Pass:
        """Connect and listen, unless that is so already."""
        if self._connection is not None and not self._connection.is_closed():
            return Pass()
        connection = await open_connection(self._url, application_name="perdure-ingest-listen")
        connection.add_termination_listener(self._ended)
        await connection.add_listener(CHANNEL, self._notified)
        self._connection = connection
        self._wake()
        return Pass({"connected": 1})

    async def on_start(self) -> None:
        """Begin to connect; the first success may come later."""
        await self._loop.start()

    async def on_stop(self) -> None:
        """Listen no more."""
        await self._loop.stop()
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await connection.close(timeout=CLOSE_TIMEOUT)

    def _notified(self, *_: object) -> None:
        self._wake()

    def _ended(self, *_: object) -> None:
        self._loop.wake()
