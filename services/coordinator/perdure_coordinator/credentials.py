"""What a grant carries of its connection: the worker has no access to the database.

Credentials travel to the worker that holds the lease, and nowhere else; they are never logged and
stand in no history. What was opened is kept for as long as its generation is the newest seen.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import asyncpg
from perdure_contracts.internal.v1.dispatch_pb2 import ConnectionGrant
from perdure_store.connections import SealedConnection, load_sealed
from perdure_store.pool import acquire

from perdure_coordinator.sealing import Keys, open_credentials

MAX_KEPT = 1000
"""Connections whose opened credentials are kept in memory."""


class Credentials:
    """Opens the credentials of connections for grants."""

    def __init__(self, spare: asyncpg.Pool, keys: Keys) -> None:
        self._spare = spare
        self._keys = keys
        self._opened: dict[tuple[str, str], tuple[SealedConnection, ConnectionGrant]] = {}

    async def grant(self, org: str, name: str) -> ConnectionGrant | None:
        """Return what the holder of a lease is given; None for a connection that is gone.

        Raises Internal where the credentials cannot be opened.
        """
        found = await self.find(org, name)
        return None if found is None else await self.opened(found)

    async def find(self, org: str, name: str) -> SealedConnection | None:
        """Return a connection as it is, still sealed; None where there is none."""
        async with acquire(self._spare) as connection:
            return (await load_sealed(connection, [(org, name)])).get((org, name))

    async def opened(self, found: SealedConnection) -> ConnectionGrant:
        """Return what the holder of a lease is given. Raises Internal where it cannot be opened."""
        org, name = found.org, found.name
        kept = self._opened.get((org, name))
        if kept is not None and kept[0] == found:
            return kept[1]
        granted = await self._open(found)
        if len(self._opened) >= MAX_KEPT:
            self._opened.clear()
        self._opened[org, name] = (found, granted)
        return granted

    async def _open(self, found: SealedConnection) -> ConnectionGrant:
        fields: Mapping[str, str] = {}
        if found.sealed is not None:
            fields = await open_credentials(self._keys, found.org, found.name, found.sealed)
        return ConnectionGrant(
            name=found.name,
            generation=found.generation,
            base_url=found.base_url,
            headers=authorising(found.scheme, fields),
            credentials=fields,
        )


def authorising(scheme: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that authorise a call by credentials of a scheme."""
    match scheme:
        case "bearer" if "token" in fields:
            return {"authorization": f"Bearer {fields['token']}"}
        case "basic" if "username" in fields:
            pair = f"{fields['username']}:{fields.get('password', '')}"
            return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        case "header" if "name" in fields:
            return {fields["name"].lower(): fields.get("value", "")}
        case _:
            return {}
