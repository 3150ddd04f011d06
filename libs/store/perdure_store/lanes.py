"""The lanes that operators made, kept in memory and read again now and then."""

from __future__ import annotations

import asyncpg
from perdure_machine.definition.model import RetryRule
from perdure_machine.lanes import Lane

from perdure_store.pool import Connection
from perdure_store.sql import sql


async def load_lanes(connection: Connection) -> dict[str, Lane]:
    """Return every lane by name."""
    rows = await connection.fetch(sql("catalogue.lanes"))
    return {row["lane"]: _lane(row) for row in rows}


def _lane(row: asyncpg.Record) -> Lane:
    return Lane(
        name=row["lane"],
        shards=row["shards"],
        stream_ceiling=row["stream_ceiling"],
        hand_out=row["hand_out_ms"] / 1000,
        lease=row["lease_ms"] / 1000,
        poison_limit=row["poison_limit"],
        retry=RetryRule(
            on=frozenset(),
            max=row["retry_max"],
            base=row["retry_base_ms"] / 1000,
            factor=row["retry_factor"],
            cap=row["retry_cap_ms"] / 1000,
        ),
    )
