"""Documents read against the lanes there are, away from the event loop: they may be large (P8)."""

from __future__ import annotations

import asyncio

import asyncpg
from perdure_machine.definition import Definition, parse
from perdure_store.pool import acquire
from perdure_store.reads.workflows import read_lanes


async def read_definition(pool: asyncpg.Pool, document: bytes) -> Definition:
    """Return what a document means. Raises DefinitionInvalid with every problem."""
    async with acquire(pool) as connection:
        lanes = await read_lanes(connection)
    return await asyncio.to_thread(parse, document, known_lanes=lanes)
