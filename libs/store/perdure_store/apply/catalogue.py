"""What the coordinator keeps of the catalogue: lanes, and the definitions that runs are on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from perdure_machine.definition.model import Definition, Prefetch
from perdure_machine.definition.parse import parse
from perdure_machine.lanes import Lane

from perdure_store.lanes import load_lanes
from perdure_store.pool import Connection
from perdure_store.sql import sql

_NOTHING = Prefetch(frozenset(), frozenset(), False)


class Catalogue:
    """Published versions never change (R11), so they are kept for good; lanes are read again."""

    def __init__(self) -> None:
        self.lanes: Mapping[str, Lane] = {}
        self._definitions: dict[int, Definition] = {}

    async def refresh(self, connection: Connection) -> None:
        """Read the lanes again."""
        self.lanes = await load_lanes(connection)

    async def definitions(
        self, connection: Connection, workflow_ids: Collection[int]
    ) -> Mapping[int, Definition]:
        """Return the definitions of `workflow_ids`, loading those not seen before."""
        missing = [one for one in set(workflow_ids) if one not in self._definitions]
        if missing:
            await self.refresh(connection)  # a new version may use a lane made just before it
            prefetches = await _prefetches(connection, missing)
            for row in await connection.fetch(sql("catalogue.documents"), missing):
                definition = parse(row["document"], known_lanes=frozenset(self.lanes))
                stored = prefetches[row["workflow_id"]]
                self._definitions[row["workflow_id"]] = _with_prefetches(definition, stored)
        return self._definitions


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
