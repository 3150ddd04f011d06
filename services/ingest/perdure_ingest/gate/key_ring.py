"""What this process knows of keys, for a short time: a revoked key works no longer than that.

Lookups gather into one statement at a time, so that a flood of unknown keys takes one connection.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg
from perdure_runtime.api_keys import PresentedKey
from perdure_runtime.batching import Batcher
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.lifecycle import Component
from perdure_store.key_holders import KeyHolder, holder_of
from perdure_store.keys import KnownSecret, find_secrets
from perdure_store.pool import acquire

MAX_KNOWN = 10_000
"""Secrets that are known at once; the one that was read longest ago is forgotten."""

MAX_LOOKUPS = 256
"""Secrets that one statement finds."""


@dataclass(slots=True)
class _Entry:
    """What was read of a secret, and who presented it rightly; good `until` that instant."""

    known: KnownSecret | None
    until: float
    holder: KeyHolder | None = None


class KeyRing(Component):
    """Tells who presents a key; what it read it keeps for `seconds`."""

    def __init__(self, pool: asyncpg.Pool, seconds: float, clock: Clock | None = None) -> None:
        super().__init__()
        self._pool = pool
        self._seconds = seconds
        self._clock = clock or SystemClock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lookups = Batcher[str, KnownSecret | None](self._find, MAX_LOOKUPS)

    async def on_start(self) -> None:
        """Look keys up from now on."""
        await self._lookups.start()

    async def on_stop(self) -> None:
        """Look no more keys up."""
        await self._lookups.stop()

    async def holder(self, presented: PresentedKey) -> KeyHolder:
        """Return who presents the key. Raises Unauthenticated as `holder_of` does."""
        entry = self._entries.get(presented.prefix)
        if entry is None or entry.until <= self._clock.monotonic():
            entry = await self._read(presented.prefix)
        if entry.holder is None or entry.known is None:
            entry.holder = holder_of(entry.known, presented.digest)
        elif not hmac.compare_digest(entry.known.digest, presented.digest):
            holder_of(None, presented.digest)
        return entry.holder

    async def _read(self, prefix: str) -> _Entry:
        asked_at = self._clock.monotonic()
        known = await self._lookups.submit(prefix)
        left = known.seconds_left if known is not None else None
        lasts = self._seconds if left is None or left <= 0 else min(self._seconds, left)
        entry = self._entries[prefix] = _Entry(known, asked_at + lasts)
        self._entries.move_to_end(prefix)
        if len(self._entries) > MAX_KNOWN:
            self._entries.popitem(last=False)
        return entry

    async def _find(self, prefixes: list[str]) -> Sequence[KnownSecret | None]:
        async with acquire(self._pool) as connection:
            found = await find_secrets(connection, prefixes)
        by_prefix = {known.prefix: known for known in found}
        return [by_prefix.get(prefix) for prefix in prefixes]
