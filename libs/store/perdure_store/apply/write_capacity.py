"""Writes what decisions say of connections; only where there is any."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from perdure_machine.changes import Changes

from perdure_store.pool import Connection
from perdure_store.sql import sql


async def write_capacity(connection: Connection, changes: Sequence[Changes]) -> None:
    """Write which connections steps use, and give back places, which lets blocked rows go."""
    kept = [
        (one.run.run.run_id, put.step, one.run.run.org, put.connection)
        for one in changes
        for put in one.connections
    ]
    if kept:
        await connection.execute(sql("capacity.keep_connections"), *zip(*kept, strict=True))
    connected = [
        (one.run.run.run_id, put.step, put.connection) for one in changes for put in one.connected
    ]
    if connected:
        await connection.execute(sql("capacity.connect_rows"), *zip(*connected, strict=True))
    freed = [
        (one.run.run.run_id, free.step, free.lease_id) for one in changes for free in one.freed
    ]
    if freed:
        await connection.execute(sql("capacity.free_slots"), *zip(*freed, strict=True))


async def block_rows(connection: Connection, steps: Sequence[tuple[UUID, int]]) -> None:
    """Keep the outbox rows of steps back until their connections have room."""
    if steps:
        await connection.execute(sql("capacity.block"), *zip(*steps, strict=True))
