"""LISTEN on a connection of its own, for whoever is woken by a notification (P7).

A notification only says "look". That one is lost, or that the connection is away for a while, costs
latency and nothing else, for everybody who listens also looks by itself.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import asyncpg
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import Reason, Unavailable
from perdure_runtime.lifecycle import Component
from perdure_runtime.loop import Loop, LoopSettings, Pass

from perdure_store.classify import classified
from perdure_store.pool import acquire, open_connection

CHECK_SECONDS = 5.0
PROBE_SECONDS = 2.0
CLOSE_TIMEOUT = 2.0

_NOTIFY = "SELECT pg_notify($1, $2)"


class _Probe:
    """A word of our own that a working connection hears."""

    def __init__(self) -> None:
        self.word = f"probe {uuid.uuid4()}"
        self.heard = asyncio.Event()

    def notified(self, _connection: object, _pid: int, _channel: str, word: object) -> None:
        if word == self.word:
            self.heard.set()


class Listener(Component):
    """Calls `wake` at each notification on `channel` and after each connect (F078).

    Each connection is tested before it is trusted: a word is sent through `pool` and must be heard,
    for LISTEN through a pooler succeeds and never hears (F077). While there is no such connection,
    its loop logs why and tries again.
    """

    def __init__(
        self,
        url: str,
        channel: str,
        wake: Callable[[], None],
        pool: asyncpg.Pool,
        *,
        application_name: str,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._url = url
        self._channel = channel
        self._wake = wake
        self._pool = pool
        self._application_name = application_name
        self._clock = clock or SystemClock()
        self._connection: asyncpg.Connection | None = None
        self._loop = Loop(f"listen {channel}", self.run_once, LoopSettings(CHECK_SECONDS))

    @property
    def hears(self) -> bool:
        """Whether there is a connection that passed its test."""
        return self._connection is not None and not self._connection.is_closed()

    async def run_once(self) -> Pass:
        """Connect, listen and test, unless that is so already."""
        if self.hears:
            return Pass()
        connection = await open_connection(self._url, application_name=self._application_name)
        try:
            with classified():
                await self._test(connection)
                await connection.add_listener(self._channel, self._notified)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        connection.add_termination_listener(self._ended)
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
            connection.remove_termination_listener(self._ended)
            await connection.close(timeout=CLOSE_TIMEOUT)

    async def _test(self, connection: asyncpg.Connection) -> None:
        probe = _Probe()
        await connection.add_listener(self._channel, probe.notified)
        async with acquire(self._pool) as sender:
            await sender.execute(_NOTIFY, self._channel, probe.word)
        if not await self._clock.wait(probe.heard, PROBE_SECONDS):
            raise Unavailable(
                "LISTEN hears nothing; PERDURE_DATABASE_DIRECT_URL must reach the server itself, "
                "not a pooler. Until then work is found by polling",
                reason=Reason.STORE_UNAVAILABLE,
            )
        await connection.remove_listener(self._channel, probe.notified)

    def _notified(self, *_: object) -> None:
        self._wake()

    def _ended(self, *_: object) -> None:
        self._loop.wake()
