"""Documents read against the lanes there are, away from the event loop: they may be large (P8)."""

from __future__ import annotations

import asyncio

import asyncpg
from perdure_machine.definition import Definition, DefinitionInvalid, Problem, parse
from perdure_machine.job_types import PREFIX, is_job
from perdure_store.pool import acquire
from perdure_store.reads.workflows import read_lanes


async def read_definition(pool: asyncpg.Pool, document: bytes) -> Definition:
    """Return what a workflow's document means. Raises DefinitionInvalid with every problem."""
    definition = await read_any_definition(pool, document)
    if is_job(definition.name):
        reason = f"names that begin with `{PREFIX}` are those of job types"
        raise DefinitionInvalid([Problem("name", reason, "make it by PutJobType, or rename it")])
    return definition


async def read_any_definition(pool: asyncpg.Pool, document: bytes) -> Definition:
    """Return what a document means, also that of a job type. Raises DefinitionInvalid."""
    async with acquire(pool) as connection:
        lanes = await read_lanes(connection)
    return await asyncio.to_thread(parse, document, known_lanes=lanes)
