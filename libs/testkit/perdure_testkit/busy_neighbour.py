"""An org with a long queue, and what the single steps of another org wait beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import grpc

from perdure_testkit.calls import Calls
from perdure_testkit.copies import copy_run
from perdure_testkit.place import Place
from perdure_testkit.provider import Provider

BUSY = "busy"
WORKFLOW = "call"

_WAITS = """
SELECT 1000 * extract(epoch FROM started_at - created_at)::float8 AS waited
  FROM steps WHERE run_id = ANY ($1::uuid[])
"""
_BUSY_STEP = """
SELECT 1000 * percentile_cont(0.5) WITHIN GROUP (
           ORDER BY extract(epoch FROM ended_at - started_at)::float8
       ) AS took
  FROM steps WHERE org = $1 AND status = 'completed'
"""
_LEFT = "SELECT count(*) AS rows FROM outbox WHERE org = $1"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """`waited`: from enqueue to start, less one step's time, sorted; times are in milliseconds.

    `left` is how many steps of the busy org are queued still.
    """

    waited: Sequence[float]
    step: float
    left: int

    @property
    def p99(self) -> float:
        """What 99 of 100 single steps waited at most."""
        return self.waited[int(len(self.waited) * 0.99) - 1]


def one_call(provider: Provider) -> str:
    """Return a definition of one `http` call to a provider that answers at once."""
    call = {"method": "POST", "url": provider.url("/call")}
    return json.dumps({"name": WORKFLOW, "nodes": {"only": {"http": call}}})


async def queue_up(place: Place, coordinator: str, document: str, backlog: int) -> None:
    """Let the busy org have its backlog; no worker runs meanwhile. `coordinator` is host:port."""
    await place.execute("INSERT INTO orgs (org) VALUES ($1)", BUSY)
    async with grpc.aio.insecure_channel(coordinator) as channel:
        calls = Calls(channel, org=BUSY)
        await calls.publish(document)
        run_id = await calls.start(WORKFLOW)
    await copy_run(place, run_id, backlog)


async def look(place: Place, runs: Sequence[UUID]) -> Neighbours:
    """Return what the steps of these runs waited."""
    (busy,) = await place.fetch(_BUSY_STEP, BUSY)
    (left,) = await place.fetch(_LEFT, BUSY)
    waits = await place.fetch(_WAITS, runs)
    waited = sorted(row["waited"] - busy["took"] for row in waits)
    return Neighbours(waited, busy["took"], left["rows"])
