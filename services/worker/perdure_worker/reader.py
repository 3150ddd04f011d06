"""Reads entries from the streams, only as many as there are free slots, and starts work on each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.tracing import quiet
from perdure_streams.consumer import Consumer, Entry

from perdure_worker.begun import Begun
from perdure_worker.slots import Places

BLOCK_MS = 250
"""Longest wait for an entry; also how long a drain may wait for the read in flight."""

RECLAIM_SECONDS = 3.0
"""Time between two looks for entries of workers that died."""

QUIET_SECONDS = 0.02
"""Entries are rare when a read has waited for so long: what stood in a stream comes at once."""

IDLE_SECONDS = 0.5
"""Wait before looking again for a free slot or for a lane; one that comes cuts it short."""

_BACKOFF = Backoff(base=0.1, factor=2.0, cap=2.0)


class Reader(Loop):
    """Nothing is read ahead: what has no slot stays in the stream for others to take."""

    def __init__(
        self,
        consumer: Consumer,
        slots: Places,
        begun: Begun,
        is_serving: Callable[[], bool],
        take: Callable[[Entry], Awaitable[None]],
        reclaim_idle: float,
        clock: Clock,
        *,
        leaves_room: bool = False,
    ) -> None:
        settings = LoopSettings(interval=IDLE_SECONDS, backoff=_BACKOFF)
        super().__init__("reader", self.read_once, settings, clock=clock)
        self._consumer = consumer
        self._slots = slots
        self._begun = begun
        self._is_serving = is_serving
        self._take = take
        self._reclaim_idle_ms = round(reclaim_idle * 1000)
        self._time = clock
        self._reclaim_at = clock.monotonic()
        self._draining = False
        self._leaves_room = leaves_room
        self._waiting_since: float | None = None
        self._waited = False
        self.asked = 0
        """How many entries the read in flight may bring."""

    @property
    def is_quiet(self) -> bool:
        """Whether entries are rare: the last read waited for its own, or this one does."""
        since = self._waiting_since
        return self._waited or (since is not None and self._is_long(since))

    def reclaim_soon(self) -> None:
        """Look at once for entries that were given back, as soon as there is room."""
        self._reclaim_at = self._time.monotonic()
        self.wake()

    async def drain(self) -> None:
        """Read no more; what the read in flight still brings is given back."""
        self._draining = True
        await super().drain()

    async def read_once(self) -> Pass:
        """Read or reclaim what there is room for. Raises Unavailable, STREAMS_UNAVAILABLE."""
        if self._slots.free == 0 or not self._is_serving():
            return Pass()
        with quiet():
            entries = await self._read(self._room())
        if self._draining:
            await self._consumer.give_back(entries)
            return Pass({"given_back": len(entries)})
        self._begin(entries)
        return Pass({"entries": len(entries)}, more=True)

    def _room(self) -> int:
        """Return how many entries to ask for; where these are rare half of it is left to others."""
        free = self._slots.free
        return max(1, free // 2) if self._leaves_room and self._waited else free

    async def _read(self, room: int) -> list[Entry]:
        self.asked, self._waiting_since = room, self._time.monotonic()
        try:
            entries = await self._next_entries(room)
            self._waited = self._is_long(self._waiting_since)
        except BaseException:
            self._waited = False
            raise
        finally:
            self.asked, self._waiting_since = 0, None
        return entries

    def _is_long(self, since: float) -> bool:
        return self._time.monotonic() - since >= QUIET_SECONDS

    async def _next_entries(self, room: int) -> list[Entry]:
        now = self._time.monotonic()
        if now >= self._reclaim_at:
            entries = await self._consumer.reclaim(self._reclaim_idle_ms, room)
            if len(entries) < room:
                self._reclaim_at = now + RECLAIM_SECONDS
            if entries:
                return entries
        return await self._consumer.read(room, BLOCK_MS)

    def _begin(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._slots.take()
            self._begun.begin(self._take(entry), name=f"entry {entry.entry_id}")
