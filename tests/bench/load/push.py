"""What PostgreSQL alone carries: the statement of a chained step from N connections at once.

No service runs. Each connection has runs of its own, as a coordinator's committers have, and hands
each of them from step to step with the arguments that a coordinator would give.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID, uuid4

import asyncpg
from perdure_store.apply.hand_overs import WRITE_HAND_OVERS, WRITTEN
from perdure_testkit.copies import copy_run

from tests.bench.load.measuring import Stretch, measured
from tests.bench.rig import Rig
from tests.bench.workflows import chain

CONNECTIONS = (1, 2, 4, 8)
BATCHES = (1, 64)
"""Runs that one statement writes."""

SECONDS = 1.5
STEPS = 50
RUNS = 1024
"""Of one point; each of them is handed over at most STEPS - 1 times."""

NAME = "bench_push"
WORKER = "bench"

_LEASED = """
UPDATE steps SET status = 'running', fence = 1, lease_id = gen_random_uuid(), worker = $2,
                 lease_expires_at = clock_timestamp() + interval '1 h',
                 started_at = clock_timestamp()
 WHERE run_id IN (SELECT run_id FROM runs WHERE workflow = $1)
"""
_UNSENT = "DELETE FROM outbox WHERE run_id IN (SELECT run_id FROM runs WHERE workflow = $1)"
_RUNS = "SELECT run_id, revision, next_step FROM runs WHERE workflow = $1 ORDER BY run_id"


@dataclass(frozen=True, slots=True)
class Place:
    """A run whose only open step is leased."""

    run_id: UUID
    revision: int
    step: int

    def row(self, handed: int) -> tuple[object, ...]:
        """Return the row of its hand-over number `handed`, counted from 0."""
        node, begun = f"n{self.step + handed - 1}", f"n{self.step + handed}"
        details = f'{{"node":"{node}"}}'.encode()
        leased = f'{{"node":"{begun}","worker":"{WORKER}"}}'.encode()
        return (
            self.run_id, self.revision + handed, self.step + handed, b"null", begun, "io", 0,
            uuid4(), WORKER, 10.0, 300.0, f"{self.run_id}//{begun}", b'{"i":1}', details, leased,
        )  # fmt: skip


async def pushed(rig: Rig) -> AsyncIterator[Stretch]:
    """Measure each number of connections with each size of a batch."""
    points = [(number, batch) for batch in BATCHES for number in CONNECTIONS]
    places = await _places(rig, RUNS * len(points))
    for place, (number, batch) in enumerate(points):
        mine = places[place * RUNS : (place + 1) * RUNS]
        async with _connected(rig, number) as opened:
            push = partial(_push, opened, mine, batch)
            yield await measured(rig, f"{number} connections, {batch} runs a statement", push)


async def _places(rig: Rig, count: int) -> Sequence[Place]:
    """Return so many runs with a leased step, while no service runs."""
    supervisor = rig.stack.supervisor
    await rig.client.publish_workflow(chain(NAME, STEPS))
    await asyncio.gather(*(supervisor.stop(n) for n in supervisor.names if n.startswith("worker")))
    run_id = UUID((await rig.client.start_run(NAME)).run_id)
    await rig.stop_services()
    await copy_run(rig.place, run_id, count - 1)
    await rig.database.execute(_UNSENT, NAME)
    await rig.database.execute(_LEASED, NAME, WORKER)
    await rig.database.execute("CHECKPOINT")
    rows = await rig.database.fetch(_RUNS, NAME)
    return [Place(row["run_id"], row["revision"], row["next_step"] - 1) for row in rows]


async def _push(opened: Sequence[asyncpg.Connection], places: Sequence[Place], batch: int) -> int:
    until = time.monotonic() + SECONDS
    shares = (places[number :: len(opened)] for number in range(len(opened)))
    pushes = (
        _push_share(connection, share, batch, until)
        for connection, share in zip(opened, shares, strict=True)
    )
    return sum(await asyncio.gather(*pushes))


async def _push_share(
    connection: asyncpg.Connection, places: Sequence[Place], batch: int, until: float
) -> int:
    """Hand over batch by batch, each to its last step; return the steps that were written."""
    steps = 0
    for rows in _batches(places, batch):
        if time.monotonic() > until:
            break
        proved = await WRITE_HAND_OVERS.write(connection, WRITTEN, rows)
        if len(proved) != len(rows):
            raise ValueError(f"{len(rows) - len(proved)} hand-overs were not proved")
        steps += len(rows)
    return steps


def _batches(places: Sequence[Place], batch: int) -> Iterator[list[tuple[object, ...]]]:
    for first in range(0, len(places), batch):
        together = places[first : first + batch]
        for handed in range(STEPS - 1):
            yield [place.row(handed) for place in together]


@asynccontextmanager
async def _connected(rig: Rig, number: int) -> AsyncIterator[list[asyncpg.Connection]]:
    url = rig.stack.backends.for_services().database_url("coordinator")
    connections = [await asyncpg.connect(url) for _ in range(number)]
    try:
        yield connections
    finally:
        for connection in connections:
            await connection.close()
