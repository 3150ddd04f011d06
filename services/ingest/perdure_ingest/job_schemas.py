"""The payload schemas of job types, read once for all calls that wait for them.

A call's read begins after the call came, so a version of a type put before is the one read.
Each org's part is read as that org (row-level security), and fails for that org alone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import asyncpg
from perdure_machine.job_types import from_document, workflow_of
from perdure_runtime.batching import Batcher
from perdure_runtime.lifecycle import Component
from perdure_store.org_reads import reading
from perdure_store.reads.jobs import read_latest_types

MAX_CALLS = 256
"""Calls that share a read."""

Schemas = Mapping[str, bytes]
"""JSON schemas by the names of their types, empty where a type has none."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    org: str
    types: frozenset[str]


class JobSchemas(Component):
    """Reads while none is on its way; what is asked meanwhile is read together after it."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__()
        self._reads: Batcher[_Wanted, Schemas | BaseException] = Batcher(
            partial(_read, pool), MAX_CALLS
        )

    async def on_start(self) -> None:
        """Take calls."""
        await self._reads.start()

    async def on_stop(self) -> None:
        """Answer what was taken."""
        await self._reads.stop()

    async def of(self, org: str, types: Collection[str]) -> Schemas:
        """Return the schemas of those types of an org that there are, perhaps of others too.

        Raises Unavailable when the database cannot be used.
        """
        found = await self._reads.submit(_Wanted(org, frozenset(types)))
        if isinstance(found, BaseException):
            raise found
        return found


async def _read(pool: asyncpg.Pool, wanted: Sequence[_Wanted]) -> list[Schemas | BaseException]:
    types: defaultdict[str, set[str]] = defaultdict(set)
    for one in wanted:
        types[one.org] |= one.types
    read = await asyncio.gather(
        *(_read_org(pool, org, names) for org, names in types.items()), return_exceptions=True
    )
    found = dict(zip(types, read, strict=True))
    return [found[one.org] for one in wanted]


async def _read_org(pool: asyncpg.Pool, org: str, types: Collection[str]) -> Schemas:
    workflows = {workflow_of(name): name for name in types}
    async with reading(pool, org) as connection:
        found = await read_latest_types(connection, org, list(workflows))
    return {
        workflows[name]: from_document(row.document).payload_schema for name, row in found.items()
    }
