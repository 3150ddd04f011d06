"""Moves ready rows into the streams that have room, fairly over orgs.

Per stream: pick, XADD, mark, three short statements with no transaction open between them (R13).
On a quiet system nothing is picked: what is ready is read at once, and all of it goes.
Dying after XADD leaves the row ready, so that it is sent twice, which is harmless; marking goes by
the row's own id and only where it is still ready, so that a paused relay cannot mark the row of a
later retry.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import asyncpg
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import PerdureError, Reason
from perdure_runtime.loop import Pass
from perdure_runtime.tracing import is_recorded, quiet, span
from perdure_store import outbox
from perdure_store.outbox import ReadyRow, Shard
from perdure_store.pool import acquire
from perdure_streams.announce import Announced
from perdure_streams.errors import STREAM_GONE, trouble_of
from perdure_streams.message import Hint
from perdure_streams.names import StreamName
from perdure_streams.producer import Producer, StreamState

from perdure_relay import decisions
from perdure_relay.duties import Duties, Target
from perdure_relay.metrics import PUBLISHED
from perdure_relay.picking import Picking
from perdure_relay.recovery import Recovery, shard_of
from perdure_relay.stream_troubles import StreamTroubles
from perdure_relay.turns import Walk


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """`buffer`: entries beyond the announced slots; `orgs_per_pass`: most orgs of one turn."""

    buffer: int = 8
    orgs_per_pass: int = 64


@dataclass(frozen=True, slots=True)
class Found:
    """A stream to serve, what Redis says of it, and all its rows where these are few."""

    target: Target
    announced: Announced
    state: StreamState
    few: Sequence[ReadyRow]


@dataclass(frozen=True, slots=True)
class Ready:
    """The queues that have ready rows; and every row by its shard, None where they are many."""

    queues: Sequence[tuple[str, str]]
    rows: Mapping[Shard, Sequence[ReadyRow]] | None


FEW = 16
"""Ready rows that are read without a pick, which takes two statements more."""

_NOTHING = Pass()


class Dispatcher:
    """Serves the streams of the shards that this process leads."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        producer: Producer,
        duties: Duties,
        recovery: Recovery,
        settings: DispatchSettings,
        *,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._pool = pool
        self._producer = producer
        self._duties = duties
        self._recovery = recovery
        self._settings = settings
        self._troubles = StreamTroubles(clock or SystemClock(), jitter)
        self._picking = Picking(pool, settings.orgs_per_pass)
        self._full: set[StreamName] = set()
        self._looking = False
        self._quiet = True

    @property
    def wants_room(self) -> bool:
        """Whether a freed slot may let a row go: the last pass left one for want of room.

        During a pass too, which may have asked for the free slots before it was freed.
        """
        return self._looking or bool(self._full)

    async def run_once(self) -> Pass:
        """Serve each stream that has ready rows once; counts `published` and `recovered`."""
        self._looking = True
        done = await self._serve_all()
        self._looking = False
        counts = {
            name: sum(one.counts.get(name, 0) for one in done)
            for name in ("published", "recovered")
        }
        self._quiet = counts["published"] <= FEW and not self._full
        return Pass(counts, more=any(one.more for one in done))

    async def _serve_all(self) -> list[Pass]:
        with quiet():
            ready = await self._ready()
            targets = [
                target
                for target in self._duties.targets(ready.queues)
                if ready.rows is None or shard_of(target.stream) in ready.rows
                if not self._troubles.is_resting(target.stream)
            ]
            self._full.clear()
            return [await self._serve(found) for found in await self._look(targets, ready)]

    async def _ready(self) -> Ready:
        async with acquire(self._pool) as connection:
            few = await outbox.few_ready(connection, FEW) if self._quiet else None
            if few is None:
                return Ready(await outbox.ready_queues(connection), None)
        return Ready(sorted({(shard.lane, shard.owner) for shard in few}), few)

    async def _look(self, targets: Sequence[Target], ready: Ready) -> list[Found]:
        states, said = await self._producer.look([target.stream for target in targets])
        rows = ready.rows or {}
        return [
            Found(target, said[target.stream.queue], state, rows.get(shard_of(target.stream), ()))
            for target, state in zip(targets, states, strict=True)
        ]

    async def _serve(self, found: Found) -> Pass:
        stream = found.target.stream
        places = self._places(found)
        if places == 0:
            self._full.add(stream)
            return _NOTHING
        if not found.state.remembered:
            return await self._recover(stream)
        try:
            done = await self._fill(found, places)
        except PerdureError as error:
            if error.reason is Reason.STORE_UNAVAILABLE:
                raise
            self._troubles.failed(stream, error)
            return await self._recover(stream) if trouble_of(error) == STREAM_GONE else _NOTHING
        self._troubles.succeeded(stream)
        return done

    async def _recover(self, stream: StreamName) -> Pass:
        await self._recovery.recover(stream)
        return Pass({"recovered": 1}, more=True)

    def _places(self, found: Found) -> int:
        lane = found.target.lane
        return decisions.room(
            found.announced,
            shards=lane.shards,
            depth=found.state.depth,
            ceiling=lane.stream_ceiling,
            buffer=self._settings.buffer,
        )

    async def _fill(self, found: Found, places: int) -> Pass:
        stream = found.target.stream
        walk = await self._walk(found, places)
        if walk.turn == found.state.turn and not walk.rows:
            return _NOTHING
        entry_ids = await self._publish(stream, walk)
        async with acquire(self._pool) as connection:
            await outbox.mark_sent(connection, [row.outbox_id for row in walk.rows], entry_ids)
        self._picking.sent(stream, walk.rows)
        if len(walk.rows) == places:
            self._full.add(stream)
        return Pass({"published": len(entry_ids)}, more=walk.more)

    async def _walk(self, found: Found, places: int) -> Walk:
        if 0 < len(found.few) <= places:
            return Walk(found.few, found.state.turn, more=False)
        return await self._picking.pick(found.target.stream, found.state.turn, places)

    async def _publish(self, stream: StreamName, walk: Walk) -> list[str]:
        with ExitStack() as sending:
            hints = [_hint(row, stream, sending) for row in walk.rows]
            entry_ids = await self._producer.publish(stream, hints, walk.turn)
        PUBLISHED.labels(stream.queue.lane).inc(len(entry_ids))
        return entry_ids


def _hint(row: ReadyRow, stream: StreamName, sending: ExitStack) -> Hint:
    """Return what is sent of a row; `sending` gets a span of it in its run's trace."""
    if not row.traceparent or not is_recorded(row.traceparent):
        return Hint(row.org, row.run_id, row.step, row.traceparent or None, row.capacity)
    facts: dict[str, str | int] = {
        "perdure.run.id": str(row.run_id),
        "perdure.step": row.step,
        "perdure.queue": str(stream.queue),
    }
    sent = sending.enter_context(
        span("send", parent=row.traceparent, kind="producer", attributes={**facts})
    )
    traceparent = sent.traceparent or row.traceparent
    return Hint(row.org, row.run_id, row.step, traceparent, row.capacity)
