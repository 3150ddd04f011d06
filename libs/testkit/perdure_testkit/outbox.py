"""The outbox as the coordinator writes it, for tests that need no runs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from perdure_machine.slots import slot_of
from perdure_store.pool import Connection

_ADD = """
INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, job, traceparent, created_at)
SELECT $1, r.run_id, 1, $2, $3, r.slot, $4, $8, $5, clock_timestamp()
  FROM unnest($6::uuid[], $7::int[]) AS r (run_id, slot)
RETURNING outbox_id
"""


@dataclass(frozen=True, slots=True)
class Outbox:
    """Writes through `connection`, which is the coordinator's or the superuser's."""

    connection: Connection

    async def add(
        self,
        count: int = 1,
        *,
        org: str = "acme",
        queue: str = "io:shared",
        priority: int = 0,
        job: int = 0,
        run_id: uuid.UUID | None = None,
        traceparent: str | None = None,
    ) -> list[int]:
        """Add ready rows for step 1 of as many runs, or of `run_id`, and return their ids."""
        lane, _, owner = queue.partition(":")
        runs = [run_id or uuid.uuid4() for _ in range(count)]
        slots = [slot_of(run, 1) for run in runs]
        rows = await self.connection.fetch(
            _ADD, org, lane, owner, priority, traceparent, runs, slots, job
        )
        return [row["outbox_id"] for row in rows]

    async def lease(self, run_id: uuid.UUID) -> None:
        """Delete the row of a run's step, as AcquireLease does."""
        await self.connection.execute("DELETE FROM outbox WHERE run_id = $1", run_id)

    async def states(self) -> dict[int, str]:
        """Return the state of every row, by id."""
        rows = await self.connection.fetch(
            "SELECT outbox_id, state::text FROM outbox ORDER BY outbox_id"
        )
        return {row["outbox_id"]: row["state"] for row in rows}

    async def count(self, state: str) -> int:
        """Return how many rows are in a state."""
        return list((await self.states()).values()).count(state)
