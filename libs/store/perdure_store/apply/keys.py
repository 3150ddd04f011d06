"""Correlation keys, locked in one order in every transaction (R14).

Which keys a batch needs is known only while it is decided. A key that comes after all that are held
is locked where it is needed; one that comes before them is not waited for: the transaction is given
up and begun again with all keys known so far locked first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar
from uuid import UUID

from perdure_store.pool import Connection
from perdure_store.sql import sql

OrgKey = tuple[str, str]
Result = TypeVar("Result")


class KeysOutOfOrder(Exception):
    """The transaction needs a key that comes before what it holds: begin with these."""

    def __init__(self, keys: frozenset[OrgKey]) -> None:
        super().__init__(f"{len(keys)} keys are to be locked first")
        self.keys = keys


class KeyLocks:
    """The keys that one transaction holds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owners: dict[OrgKey, UUID | None] = {}
        self._closed = False

    def close(self) -> None:
        """Let no more keys be locked: locks that come after them are held from now on."""
        self._closed = True

    async def lock(self, keys: Collection[OrgKey]) -> Mapping[OrgKey, UUID | None]:
        """Hold `keys` and return whose each was. Raises `KeysOutOfOrder`."""
        new = sorted(set(keys) - self._owners.keys())
        if new and (self._closed or (self._owners and new[0] < max(self._owners))):
            raise KeysOutOfOrder(frozenset(keys) | self._owners.keys())
        if new:
            rows = await self._connection.fetch(
                sql("signals.lock_keys"), [org for org, _ in new], [key for _, key in new]
            )
            self._owners |= {(row["org"], row["correlation_key"]): row["run_id"] for row in rows}
        return {key: self._owners[key] for key in keys}

    async def claim(self, org: str, run_id: UUID, keys: Collection[str]) -> dict[str, UUID]:
        """Give `keys` that are nobody's to the run; return whose each is then."""
        owners = await self.lock([(org, key) for key in keys])
        free = [key for (_, key), owner in owners.items() if owner is None]
        if free:
            await self._connection.execute(sql("signals.claim_keys"), org, free, run_id)
            self._owners |= {(org, key): run_id for key in free}
        return {key: owner or run_id for (_, key), owner in owners.items()}

    async def hold_all_of(self, run_ids: Collection[UUID]) -> None:
        """Hold the keys of runs that end, to be freed."""
        rows = await self._connection.fetch(sql("signals.keys_of"), run_ids)
        await self.lock([(row["org"], row["correlation_key"]) for row in rows])


async def in_key_order(
    attempt: Callable[[frozenset[OrgKey]], Awaitable[Result]],
) -> Result:
    """Return what `attempt` does; it is given the keys that its transaction is to lock first."""
    first: frozenset[OrgKey] = frozenset()
    while True:
        try:
            return await attempt(first)
        except KeysOutOfOrder as late:
            first |= late.keys
