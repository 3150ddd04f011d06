"""Hears that a slot freed, so that the relay need not wait for its next tick (F072)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component
from perdure_runtime.loop import Loop, LoopSettings, Pass
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from perdure_streams.errors import classified
from perdure_streams.names import FREED_CHANNEL

_LISTEN_SECONDS = 0.25


class FreedListener(Component):
    """Calls `on_freed` whenever a worker told that a slot freed, and after each reconnect."""

    def __init__(self, client: Redis, on_freed: Callable[[], None]) -> None:
        super().__init__()
        self._client = client
        self._on_freed = on_freed
        self._channel: PubSub | None = None
        self._loop = Loop("freed-slots", self._listen, LoopSettings(interval=_LISTEN_SECONDS))

    async def on_start(self) -> None:
        """Begin to listen."""
        await self._loop.start()

    async def on_stop(self) -> None:
        """Stop listening."""
        await self._loop.stop()
        await self._close()

    async def _listen(self) -> Pass:
        try:
            with classified():
                channel = await self._subscribed()
                word = await channel.get_message(
                    ignore_subscribe_messages=True, timeout=_LISTEN_SECONDS
                )
        except PerdureError:
            await self._close()
            raise
        if word is not None:
            self._on_freed()
        return Pass(more=True)

    async def _subscribed(self) -> PubSub:
        if self._channel is None:
            self._channel = self._client.pubsub()
            await self._channel.subscribe(FREED_CHANNEL)
            # What was told while nobody listened is lost (F078).
            self._on_freed()
        return self._channel

    async def _close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            with suppress(RedisError, OSError):
                await channel.aclose()  # type: ignore[no-untyped-call]
