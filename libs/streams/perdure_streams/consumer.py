"""The worker's side of the streams: reading what it has room for, settling, reclaiming.

An entry is settled, XACK and XDEL in one MULTI, once AcquireLease gave a definite answer: a death
between the two would leave an entry that nobody delivers again and that counts for ever (p2). Only
an entry without an answer stays pending, for `reclaim` of whoever comes next.
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.fail_points import declare
from perdure_runtime.logs import log_failure
from redis.asyncio import Redis

from perdure_streams.client import MAX_BLOCK_MS
from perdure_streams.errors import MissingGroup, classified
from perdure_streams.groups import make_group
from perdure_streams.message import BrokenEntry, Hint, decode
from perdure_streams.names import GROUP, StreamName
from perdure_streams.replies import RawEntry, read_autoclaim, read_group

XREADGROUP = declare("streams.xreadgroup")
SETTLE = declare("streams.settle")
XAUTOCLAIM = declare("streams.xautoclaim")
ACK_VANISHED = declare("streams.ack_vanished")

MISSING_GROUP_BACKOFF = Backoff(base=0.05, factor=2.0, cap=5.0)
GIVEN_BACK_IDLE_MS = 24 * 3600 * 1000
"""Idle time that makes an entry given back claimable at once, whatever a reclaimer asks for."""

_FROM_THE_BEGINNING = "0-0"
_VANISHED_PAGE = 100

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """A hint that was delivered to this consumer."""

    stream: StreamName
    entry_id: str
    hint: Hint


class Consumer:
    """One worker's membership in the groups of the streams it serves.

    Used by one reading loop; `settle` and `give_back` may be called beside it. Methods raise
    Unavailable, STREAMS_UNAVAILABLE, when Redis cannot be used.
    """

    def __init__(
        self,
        client: Redis,
        streams: Iterable[StreamName],
        name: str,
        *,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self._client = client
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._streams: tuple[StreamName, ...] = ()
        self._made: set[StreamName] = set()
        self._cursors: dict[StreamName, str] = {}
        self._turn = 0
        self._missing = 0
        self.serve(streams)

    def serve(self, streams: Iterable[StreamName]) -> None:
        """Serve these streams from the next read on; what was delivered stays ours to settle."""
        self._streams = tuple(sorted(set(streams)))
        self._made.intersection_update(self._streams)

    async def read(self, count: int, block_ms: int) -> list[Entry]:
        """Return at most `count` new entries, waiting at most `block_ms` for the first.

        Groups that are missing are made, and then nothing is returned after a growing wait, so
        that a server which keeps losing them is not hammered (F086). ValueError if `count` is not
        positive or `block_ms` is not in 1..MAX_BLOCK_MS.
        """
        if count < 1 or not 0 < block_ms <= MAX_BLOCK_MS:
            raise ValueError(f"count {count} or block_ms {block_ms} is out of range")
        if not self._streams:
            return []
        return await self._guarded(lambda: self._read(self._in_turn(), count, block_ms))

    async def reclaim(self, min_idle_ms: int, count: int) -> list[Entry]:
        """Take over at most `count` entries that were delivered at least `min_idle_ms` ago.

        They belonged to workers that died before the lease, or were given back. Entries that no
        longer exist are acknowledged: the relay finds their rows by itself (F083).
        """
        return await self._guarded(lambda: self._reclaim(min_idle_ms, count))

    async def settle(self, entries: Iterable[Entry]) -> None:
        """Take entries off their streams and pending lists; settling twice is harmless."""
        for stream, ids in _ids_by_stream(entries).items():
            await self._settle(stream, ids)

    async def give_back(self, entries: Iterable[Entry]) -> None:
        """Let the next reclaim of any worker take these at once; for a drain."""
        for stream, ids in _ids_by_stream(entries).items():
            with classified():
                await self._client.xclaim(
                    str(stream), GROUP, self.name, 0, [*ids], idle=GIVEN_BACK_IDLE_MS, justid=True
                )

    async def _guarded(self, read: Callable[[], Awaitable[list[Entry]]]) -> list[Entry]:
        await self._make_groups()
        try:
            entries = await read()
        except MissingGroup:
            self._made.clear()
            self._missing += 1
            await self._clock.sleep(MISSING_GROUP_BACKOFF.seconds(self._missing, self._jitter()))
            return []
        self._missing = 0
        return entries

    async def _make_groups(self) -> None:
        for stream in self._streams:
            if stream not in self._made:
                await make_group(self._client, stream)
                self._made.add(stream)

    def _in_turn(self) -> tuple[StreamName, ...]:
        """The streams, a different one first each time."""
        if self._streams:
            self._turn = (self._turn + 1) % len(self._streams)
        return self._streams[self._turn :] + self._streams[: self._turn]

    async def _read(
        self, streams: tuple[StreamName, ...], count: int, block_ms: int
    ) -> list[Entry]:
        # COUNT holds for each stream, so it is the share of one.
        if count >= len(streams):
            return await self._deliver(streams, count // len(streams), block_ms)
        found: list[Entry] = []
        left = streams
        while left and len(found) < count:
            now, left = left[: count - len(found)], left[count - len(found) :]
            found += await self._deliver(now, 1, None)
        if found:
            return found
        found = await self._deliver(streams, 1, block_ms)
        # Several streams may get an entry between the two reads.
        await self.give_back(found[count:])
        return found[:count]

    async def _deliver(
        self, streams: Sequence[StreamName], count: int, block_ms: int | None
    ) -> list[Entry]:
        by_key = {str(stream): stream for stream in streams}
        with classified():
            async with XREADGROUP.around():
                reply = await self._client.xreadgroup(
                    GROUP, self.name, dict.fromkeys(by_key, ">"), count=count, block=block_ms
                )
        delivered: list[Entry] = []
        for key, raw in read_group(reply).items():
            delivered += await self._keep_hints(by_key[key], raw)
        return delivered

    async def _reclaim(self, min_idle_ms: int, count: int) -> list[Entry]:
        claimed: list[Entry] = []
        for stream in self._in_turn():
            if len(claimed) < count:
                claimed += await self._claim(stream, min_idle_ms, count - len(claimed))
        return claimed

    async def _claim(self, stream: StreamName, min_idle_ms: int, count: int) -> list[Entry]:
        start = self._cursors.get(stream, _FROM_THE_BEGINNING)
        with classified():
            async with XAUTOCLAIM.around():
                reply = await self._client.xautoclaim(
                    str(stream), GROUP, self.name, min_idle_ms, start_id=start, count=count
                )
        claimed = read_autoclaim(reply)
        self._cursors[stream] = claimed.cursor
        if claimed.vanished:
            await self._ack_vanished(stream)
        return await self._keep_hints(stream, claimed.entries)

    async def _ack_vanished(self, stream: StreamName) -> None:
        """Acknowledge what is pending with us and no longer in the stream."""
        key = str(stream)
        with classified():
            pending = await self._client.xpending_range(
                key, GROUP, "-", "+", _VANISHED_PAGE, consumername=self.name
            )
            ids = [item["message_id"] for item in pending]
            async with self._client.pipeline(transaction=False) as pipeline:
                for entry_id in ids:
                    pipeline.xrange(key, min=entry_id, max=entry_id)
                found = await pipeline.execute()
            gone = [entry_id for entry_id, entry in zip(ids, found, strict=True) if not entry]
            if gone:
                async with ACK_VANISHED.around():
                    await self._client.xack(key, GROUP, *gone)

    async def _keep_hints(self, stream: StreamName, raw: Iterable[RawEntry]) -> list[Entry]:
        """Return the hints among the entries and drop the others: the outbox has the truth."""
        hints: list[Entry] = []
        broken: list[str] = []
        for entry in raw:
            try:
                hints.append(Entry(stream, entry.entry_id, decode(entry.fields or {})))
            except BrokenEntry as problem:
                broken.append(entry.entry_id)
                log_failure(_logger, "streams.dropped", problem, stream=str(stream))
        if broken:
            await self._settle(stream, broken)
        return hints

    async def _settle(self, stream: StreamName, ids: Sequence[str]) -> None:
        with classified():
            async with SETTLE.around(), self._client.pipeline(transaction=True) as pipeline:
                pipeline.xack(str(stream), GROUP, *ids)
                pipeline.xdel(str(stream), *ids)
                await pipeline.execute()


def _ids_by_stream(entries: Iterable[Entry]) -> Mapping[StreamName, list[str]]:
    grouped: defaultdict[StreamName, list[str]] = defaultdict(list)
    for entry in entries:
        grouped[entry.stream].append(entry.entry_id)
    return grouped
