"""Removes what stands in Redis of shards that are no more.

Rows that were sent there are sent again to their present shard, since no entry of theirs is in it.
Workers still read the old streams for some seconds, so these stay until nobody knows of them. The
memory key goes with its stream: should the shard be wanted again at that moment, its relay finds
that Redis remembers nothing, and recovers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import asyncpg
from perdure_machine.decide.activate import SHARED_OWNER
from perdure_runtime.clock import Clock
from perdure_runtime.logs import log
from perdure_runtime.loop import Pass
from perdure_runtime.tracing import quiet
from perdure_store.lanes import load_weights
from perdure_store.pool import acquire
from perdure_streams.names import Queue, StreamName
from perdure_streams.producer import Producer

from perdure_relay.duties import Duties, Duty

GRACE_SECONDS = 60.0
"""Workers read the lanes again, and so leave a stream, well within it."""

_logger = logging.getLogger(__name__)


class Retired:
    """Sees which shards end while this process runs; those that end while none runs stay."""

    def __init__(
        self, pool: asyncpg.Pool, producer: Producer, duties: Duties, clock: Clock
    ) -> None:
        self._pool = pool
        self._producer = producer
        self._duties = duties
        self._clock = clock
        self._known: frozenset[Duty] = frozenset()
        self._ended: dict[Duty, float] = {}

    async def run_once(self) -> Pass:
        """Remove what shards left that ended a while ago; counts `removed` streams."""
        now, wanted = self._clock.monotonic(), self._duties.all
        if not wanted:
            return Pass()  # `io` is always there: this process has stepped down
        for duty in self._known - wanted:
            self._ended.setdefault(duty, now)
        self._known |= wanted
        self._ended = {duty: at for duty, at in self._ended.items() if duty not in wanted}
        due = [duty for duty, at in self._ended.items() if now - at >= GRACE_SECONDS]
        if not due:
            return Pass()
        with quiet():
            streams = await self._streams_of(due)
            removed = await self._producer.remove(streams)
        for duty in due:
            del self._ended[duty]
            self._known -= {duty}
            log(_logger, "relay.shard_retired", lane=duty.lane, shard=duty.shard)
        return Pass({"removed": removed})

    async def _streams_of(self, duties: Sequence[Duty]) -> list[StreamName]:
        async with acquire(self._pool) as connection:
            orgs = [one.org for one in await load_weights(connection)]
        return [
            StreamName(Queue(duty.lane, owner), duty.shard)
            for duty in duties
            for owner in (SHARED_OWNER, *orgs)
        ]
