"""Run ids: UUIDv7 from a database time that was last given (R7)."""

from __future__ import annotations

import secrets
import time
from uuid import UUID

from perdure_store.ids import id_from_number
from perdure_store.pool import Connection
from perdure_store.sql import sql

_PARTS = 4096
"""Parts of a millisecond that an id tells apart."""

_SMALL_STEP = 1000 * _PARTS
"""A second: by no more do two answers of one database's clock differ from what lay between them."""


class RunIds:
    """Makes ids whose first 48 bits are milliseconds of the database's clock.

    The twelve bits after them are the part of a millisecond, so that the ids that one process makes
    are in the order in which it made them.

    Between two answers of the database its time is carried on by the monotonic clock, so that a
    process whose wall clock is wrong makes no run in a wrong month (F016).
    """

    def __init__(self) -> None:
        self._ahead_ms = 0.0  # database time minus the monotonic clock
        self._last = 0

    async def synchronise(self, connection: Connection) -> None:
        """Ask the database for its time; to be done before the first id is made."""
        self.learn(await connection.fetchval(sql("clock.now_ms")))

    def learn(self, now_ms: int) -> None:
        """Take a time that the database gave just now."""
        self._ahead_ms = now_ms - time.monotonic() * 1000

    def next(self) -> UUID:
        """Return a new id."""
        at = int((time.monotonic() * 1000 + self._ahead_ms) * _PARTS)
        if 0 <= self._last - at < _SMALL_STEP:
            at = self._last + 1  # what was learned last set the time back a little
        self._last = at
        whole, part = divmod(at, _PARTS)
        value = (whole & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76
        value |= part << 64 | 0b10 << 62 | secrets.randbits(62)
        return id_from_number(value)
