"""Picks the rows of a stream's next pass: two statements, and the walk around the ring of orgs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import asyncpg
from perdure_store import outbox
from perdure_store.outbox import ReadyRow, Wish
from perdure_store.pool import acquire
from perdure_streams.names import StreamName
from perdure_streams.turn import Turn

from perdure_relay.recovery import shard_of
from perdure_relay.turns import Walk, ring_from, walk

FIRST_JOB = -(1 << 31)
MAX_REMEMBERED = 10_000
"""Orgs whose jobs' turns are remembered; of one that is forgotten the first job is first again."""


class Picking:
    """Remembers, per stream and org, which job was the last; whose turn it is stands in Redis."""

    def __init__(self, pool: asyncpg.Pool, orgs_per_pass: int) -> None:
        self._pool = pool
        self._orgs_per_pass = orgs_per_pass
        self._jobs: OrderedDict[tuple[StreamName, str], int] = OrderedDict()

    async def pick(self, stream: StreamName, turn: Turn, places: int) -> Walk:
        """Choose at most `places` rows. Raises Unavailable, STORE_UNAVAILABLE."""
        shard = shard_of(stream)
        # One more than can be served: the first may have had its turn.
        limit = min(places, self._orgs_per_pass) + 1
        async with acquire(self._pool) as connection:
            ring = ring_from(
                await outbox.ready_orgs(connection, shard, turn.org, limit), turn, limit
            )
            wishes = [
                Wish(seat.org, share, self._jobs.get((stream, seat.org), FIRST_JOB))
                for seat, share in zip(ring.seats, ring.shares(places), strict=True)
            ]
            picked = await outbox.pick_ready(connection, shard, wishes)
        return walk(ring, picked, turn, places)

    def sent(self, stream: StreamName, rows: Sequence[ReadyRow]) -> None:
        """Remember the last job of each org."""
        for row in rows:
            self._jobs[stream, row.org] = row.job
            self._jobs.move_to_end((stream, row.org))
        while len(self._jobs) > MAX_REMEMBERED:
            self._jobs.popitem(last=False)
