"""The connections of the port over PostgreSQL."""

from __future__ import annotations

import asyncpg
from perdure_machine.capacity import Tried
from perdure_store import causes, connection_tries, connections

from perdure_testkit.engines.port import Bears

ACTOR = "tester"


class ConnectionsPort:
    """What operators, the coordinator and the sweeper do to connections."""

    coordinator: asyncpg.Connection

    async def put_connection(self, org: str, name: str, bears: Bears) -> None:
        """Make a connection, or let it bear something else."""
        settings = connections.Settings(
            name, slots=bears.slots, rate=bears.rate, burst=bears.burst,
            max_failures=bears.failures, open_for=bears.open_for,
        )  # fmt: skip
        await connections.put_connection(self.coordinator, org, settings, actor=ACTOR)

    async def repair_connection(self, org: str, name: str) -> None:
        """Say that a connection works again."""
        await connections.repair_connection(self.coordinator, org, name, actor=ACTOR)

    async def disable_connection(self, org: str, name: str) -> None:
        """Let no step use a connection until it is repaired."""
        await connections.disable_connection(self.coordinator, org, name, actor=ACTOR)

    async def tell(self, org: str, tried: Tried) -> None:
        """Say of a connection how a try went."""
        await connection_tries.tell(self.coordinator, [(org, tried)])

    async def unblock(self) -> None:
        """Let blocked steps go that nothing hinders any more."""
        await connections.unblock(self.coordinator)

    async def mend(self) -> None:
        """Bring back parked steps and give back places that nothing else does, as the sweeper."""
        await connections.free_leaked(self.coordinator, limit=10_000)
        await causes.send_forgotten(self.coordinator, limit=10_000)

    async def in_use(self, org: str, name: str) -> int:
        """Return how many places of a limited connection are held."""
        (state,) = await connections.list_connections(self.coordinator, org, name=name, limit=1)
        return state.in_use

    async def is_open(self, org: str, name: str) -> bool:
        """Tell whether a connection's breaker lets nothing through."""
        (state,) = await connections.list_connections(self.coordinator, org, name=name, limit=1)
        return state.health == "open"
