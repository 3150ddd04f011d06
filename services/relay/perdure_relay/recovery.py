"""Finds what Redis lost and makes those rows ready again (protocol p2).

A sent row goes out again when its entry will reach nobody, looked up by its id, or when the
stream's memory key is gone. Age is no reason: in a slow lane an entry that waits would come back
as a duplicate, ahead of everybody.
"""

from __future__ import annotations

import logging

import asyncpg
from perdure_runtime.logs import log
from perdure_runtime.loop import Pass
from perdure_runtime.tracing import quiet
from perdure_store import outbox
from perdure_store.outbox import SentRow, Shard
from perdure_store.pool import acquire
from perdure_streams.groups import forget_consumers
from perdure_streams.lookup import find_deliverable
from perdure_streams.names import StreamName
from perdure_streams.producer import Producer
from redis.asyncio import Redis

from perdure_relay import decisions
from perdure_relay.duties import Duties, Target
from perdure_relay.metrics import REDISPATCHED

PAGE_ROWS = 500
IDLE_MEMBER_MS = 3_600_000

_logger = logging.getLogger(__name__)


def shard_of(stream: StreamName) -> Shard:
    """The part of the outbox that goes to this stream."""
    return Shard(stream.queue.lane, stream.queue.owner, stream.shard)


class Recovery:
    """Looks after the streams of the shards that this process leads."""

    def __init__(
        self, pool: asyncpg.Pool, client: Redis, producer: Producer, duties: Duties
    ) -> None:
        self._pool = pool
        self._client = client
        self._producer = producer
        self._duties = duties
        self._reached: dict[StreamName, int] = {}

    async def run_once(self) -> Pass:
        """Check one page of the sent rows of each stream; counts `redispatched`."""
        with quiet():
            async with acquire(self._pool) as connection:
                queues = await outbox.sent_queues(connection)
            targets = self._duties.targets(queues)
            states = await self._producer.states([target.stream for target in targets])
            redispatched = 0
            for target, state in zip(targets, states, strict=True):
                if state.remembered:
                    redispatched += await self._check_page(target)
                else:
                    redispatched += await self.recover(target.stream)
        return Pass({"redispatched": redispatched})

    async def forget_consumers(self) -> Pass:
        """Remove members of the groups that are long gone; counts `forgotten`."""
        with quiet():
            async with acquire(self._pool) as connection:
                queues = await outbox.sent_queues(connection)
            streams = [target.stream for target in self._duties.targets(queues)]
            forgotten = [
                await forget_consumers(self._client, stream, IDLE_MEMBER_MS) for stream in streams
            ]
        return Pass({"forgotten": sum(forgotten)})

    async def recover(self, stream: StreamName) -> int:
        """Make every sent row of a stream ready, then let Redis begin to remember it anew."""
        redispatched, after = 0, 0
        while True:
            rows = await self._sent_rows(stream, after)
            redispatched += await self._ready_again(stream, rows, "memory")
            if len(rows) < PAGE_ROWS:
                break
            after = rows[-1].outbox_id
        await self._producer.begin_memory(stream)
        log(_logger, "relay.memory_begun", stream=str(stream), redispatched=redispatched)
        return redispatched

    async def _check_page(self, target: Target) -> int:
        stream = target.stream
        rows = await self._sent_rows(stream, self._reached.get(stream, 0))
        self._reached[stream] = rows[-1].outbox_id if len(rows) == PAGE_ROWS else 0
        ids = [row.entry_id for row in rows]
        found = await find_deliverable(self._client, stream, ids)
        return await self._ready_again(stream, decisions.lost(rows, found), "entry")

    async def _sent_rows(self, stream: StreamName, after: int) -> list[SentRow]:
        async with acquire(self._pool) as connection:
            return await outbox.sent_rows(connection, shard_of(stream), after, PAGE_ROWS)

    async def _ready_again(self, stream: StreamName, rows: list[SentRow], cause: str) -> int:
        if not rows:
            return 0
        async with acquire(self._pool) as connection:
            made = await outbox.ready_again(connection, rows)
        REDISPATCHED.labels(stream.queue.lane, cause).inc(made)
        return made
