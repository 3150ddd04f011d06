"""What tries tell of their connections: failures in a row, refusals, and how a probe went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perdure_machine.capacity import Tried
from perdure_machine.node_error import ErrorClass

from perdure_store.connections import COMMIT_CONNECTIONS
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

_NEITHER = (ErrorClass.RATE_LIMITED, ErrorClass.POISON)
"""Classes of errors that say nothing of whether the provider works."""


async def tell(connection: Connection, tries: Sequence[tuple[str, Tried]]) -> None:
    """Count how tries of orgs went, and let go what a closed breaker held back."""
    told: dict[tuple[str, str], _Told] = defaultdict(_Told)
    for org, tried in tries:
        told[org, tried.connection].add(tried)
    rows = [(*name, *one.columns()) for name, one in sorted(told.items())]
    columns = list(zip(*rows, strict=True))
    async with transaction(connection, COMMIT_CONNECTIONS):
        await connection.execute(sql("connections.lock_told"), *columns[:2])
        await connection.execute(sql("connections.tell"), *columns)
        await connection.execute(sql("capacity.unblock"))


class _Told:
    """What the tries of one connection in a batch come to, in their order."""

    def __init__(self) -> None:
        self._went_well = False
        self._failed = 0
        self._retry_after: float | None = None
        self._refused: int | None = None
        self._leases: list[str] = []

    def add(self, tried: Tried) -> None:
        """Count one more."""
        if tried.lease_id is not None:
            self._leases.append(str(tried.lease_id))
        if tried.category == ErrorClass.RETRYABLE:
            self._failed += 1
        elif tried.category not in _NEITHER:
            self._went_well, self._failed = True, 0
        if tried.category == ErrorClass.RATE_LIMITED and tried.retry_after is not None:
            self._retry_after = max(self._retry_after or 0.0, tried.retry_after)
        if tried.category == ErrorClass.AUTHORISATION:
            self._refused = tried.generation

    def columns(self) -> tuple[object, ...]:
        """Return the columns of the statement after org and name."""
        leases = " ".join(self._leases)
        return self._went_well, self._failed, self._retry_after, self._refused, leases
