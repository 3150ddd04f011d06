"""Which streams this worker reads: its queues, over as many shards as their lanes have now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.logs import log
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_streams.consumer import Consumer
from perdure_streams.names import Queue, StreamName

from perdure_worker.coordinator import Coordinator

REFRESH_SECONDS = 5.0

_BACKOFF = Backoff(base=0.1, factor=2.0, cap=2.0)
_logger = logging.getLogger(__name__)


class Lanes(Loop):
    """Asks the coordinator now and then, since an operator may change the number of shards."""

    def __init__(
        self, coordinator: Coordinator, consumer: Consumer, queues: Sequence[Queue], clock: Clock
    ) -> None:
        settings = LoopSettings(interval=REFRESH_SECONDS, backoff=_BACKOFF)
        super().__init__("lanes", self.refresh, settings, clock=clock)
        self._coordinator = coordinator
        self._consumer = consumer
        self._queues = tuple(queues)
        self._streams: tuple[StreamName, ...] = ()
        self._unknown: frozenset[Queue] = frozenset()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when there are other streams to read."""
        self._listeners.append(listener)

    @property
    def are_known(self) -> bool:
        """Whether there is a stream to read."""
        return bool(self._streams)

    async def refresh(self) -> Pass:
        """Ask for the lanes and serve their streams. Raises PerdureError."""
        shards = {lane.lane: lane.shards for lane in await self._coordinator.lanes()}
        self._tell_unknown(queue for queue in self._queues if queue.lane not in shards)
        streams = tuple(
            stream for queue in self._queues for stream in queue.streams(shards.get(queue.lane, 0))
        )
        if streams != self._streams:
            log(_logger, "lanes.serving", streams=len(streams))
            self._consumer.serve(streams)
            self._streams = streams
            for listener in self._listeners:
                listener()
        return Pass()

    def _tell_unknown(self, queues: Iterable[Queue]) -> None:
        unknown = frozenset(queues)
        for queue in sorted(unknown - self._unknown):
            log(_logger, "lanes.unknown", level=logging.WARNING, queue=str(queue))
        self._unknown = unknown
