"""What the coordinator keeps of the catalogue: lanes, and the definitions that runs are on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from perdure_machine.definition.model import Definition
from perdure_machine.definition.parse import parse
from perdure_machine.lanes import Lane

from perdure_store.lanes import load_lanes
from perdure_store.pool import Connection
from perdure_store.sql import sql


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
            for row in await connection.fetch(sql("catalogue.documents"), missing):
                self._definitions[row["workflow_id"]] = parse(
                    row["document"], known_lanes=frozenset(self.lanes)
                )
        return self._definitions
