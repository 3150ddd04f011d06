"""Takes entries that were answered off their streams, many at a time; nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from contextvars import Context

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log_failure
from perdure_streams.consumer import Consumer, Entry

from perdure_worker.coordinator import NOT_NOW

MAX_SETTLED = 256

GATHER_SECONDS = 0.005
"""How long entries gather for one command, which costs as much as several steps.

Until then they take up room in their stream, so it is no longer than a pass of the relay. A worker
that dies meanwhile leaves them to a reclaim, as one that dies before it settles does.
"""

SETTLE_TRIES = 3
AGAIN_BACKOFF = Backoff(base=0.05, factor=2.0, cap=1.0)

_logger = logging.getLogger(__name__)


class Settling(Component):
    """Settles what gathers while the last batch is on its way."""

    def __init__(self, consumer: Consumer, clock: Clock) -> None:
        super().__init__()
        self._consumer = consumer
        self._clock = clock
        self._gathered: deque[Entry] = deque()
        self._task: asyncio.Task[None] | None = None

    async def on_start(self) -> None:
        """Nothing to do: it begins with the first entry."""

    async def on_stop(self) -> None:
        """Settle what was given."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    def settle(self, entry: Entry) -> None:
        """Have an entry settled soon."""
        self._gathered.append(entry)
        if self._task is None:
            # A context of its own: one entry's log fields are not the others'.
            self._task = asyncio.create_task(self._run(), context=Context())

    async def _run(self) -> None:
        try:
            while self._gathered:
                if len(self._gathered) < MAX_SETTLED:
                    await self._clock.sleep(GATHER_SECONDS)
                size = min(len(self._gathered), MAX_SETTLED)
                await self._settle([self._gathered.popleft() for _ in range(size)])
        finally:
            self._task = None

    async def _settle(self, entries: list[Entry]) -> None:
        for number in range(1, SETTLE_TRIES + 1):
            try:
                await self._consumer.settle(entries)
            except NOT_NOW as trouble:
                # An entry that stays is reclaimed, answered "gone" and settled then.
                log_failure(
                    _logger, "entry.not_settled", trouble, tries=number, entries=len(entries)
                )
                await self._clock.sleep(AGAIN_BACKOFF.seconds(number, random.random()))
            else:
                return
