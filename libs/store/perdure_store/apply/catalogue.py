"""What the coordinator keeps of the catalogue: lanes, and the definitions that runs are on."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import TypeVar

from perdure_machine.definition.model import Definition, Prefetch
from perdure_machine.definition.parse import parse
from perdure_machine.lanes import Lane
from perdure_machine.replacing import replace

from perdure_store.lanes import load_lanes
from perdure_store.pool import Connection
from perdure_store.sql import sql

Result = TypeVar("Result")

_NOTHING = Prefetch(frozenset(), frozenset(), False)


class DefinitionsMissing(Exception):
    """Definitions are needed that were not read yet."""

    def __init__(self, workflow_ids: frozenset[int]) -> None:
        super().__init__(f"the definitions {sorted(workflow_ids)} are not known yet")
        self.workflow_ids = workflow_ids


class Catalogue:
    """Published versions never change (R11), so they are kept for good; lanes are read again."""

    def __init__(self) -> None:
        self.lanes: Mapping[str, Lane] = {}
        self._definitions: dict[int, Definition] = {}

    async def refresh(self, connection: Connection) -> None:
        """Read the lanes again."""
        self.lanes = await load_lanes(connection)

    def definitions(self, workflow_ids: Collection[int]) -> Mapping[int, Definition]:
        """Return the definitions of `workflow_ids`. Raises `DefinitionsMissing`."""
        missing = frozenset(one for one in workflow_ids if one not in self._definitions)
        if missing:
            raise DefinitionsMissing(missing)
        return self._definitions

    def known(self, workflow_id: int) -> Definition | None:
        """Return a definition if it was read already."""
        return self._definitions.get(workflow_id)

    async def complete(
        self, connection: Connection, attempt: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Return what `attempt` does, learning the definitions that it misses in between.

        They are read and parsed outside of its transaction, which it must have ended, and apart
        from the event loop: a large one takes longer than a transaction may idle (R13, P8).
        """
        while True:
            try:
                return await attempt()
            except DefinitionsMissing as missing:
                await self._learn(connection, missing.workflow_ids)

    async def _learn(self, connection: Connection, workflow_ids: Collection[int]) -> None:
        await self.refresh(connection)  # a new version may use a lane made just before it
        prefetches = await _prefetches(connection, workflow_ids)
        lanes = frozenset(self.lanes)
        for row in await connection.fetch(sql("catalogue.documents"), workflow_ids):
            definition = await asyncio.to_thread(parse, row["document"], known_lanes=lanes)
            stored = prefetches[row["workflow_id"]]
            self._definitions[row["workflow_id"]] = _with_prefetches(definition, stored)
        if unknown := [one for one in workflow_ids if one not in self._definitions]:
            raise RuntimeError(f"there are no workflows {unknown}")


async def _prefetches(
    connection: Connection, workflow_ids: Collection[int]
) -> Mapping[int, Mapping[str, Prefetch]]:
    found: dict[int, dict[str, Prefetch]] = defaultdict(dict)
    for row in await connection.fetch(sql("catalogue.prefetches"), workflow_ids):
        found[row["workflow_id"]][row["node"]] = Prefetch(
            frozenset(row["steps"]), frozenset(row["outputs"]), row["input"]
        )
    return found


def _with_prefetches(definition: Definition, stored: Mapping[str, Prefetch]) -> Definition:
    """Let the definition expect what is loaded: by the release that published it, not by this."""
    nodes = {
        name: replace(node, prefetch=stored.get(name, _NOTHING))
        for name, node in definition.nodes.items()
    }
    return replace(definition, nodes=MappingProxyType(nodes))
