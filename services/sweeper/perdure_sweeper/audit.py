"""Watches for absence: what has stopped without an error (R10)."""

from __future__ import annotations

import logging

import asyncpg
from perdure_runtime.election import Leadership
from perdure_runtime.logs import log
from perdure_runtime.loop import Pass
from perdure_runtime.metrics import gauge
from perdure_store.pool import acquire
from perdure_store.sweeps import NO_RUN, Stuck, stuck_page

PAGE = 1000
MAX_LOGGED = 20
"""Findings of one pass that are logged; the gauge counts them all."""

NO_WAY_FORWARD = gauge(
    "no_way_forward",
    "Unfinished steps and runs without a way forward, at the active sweeper's last full pass.",
)

_logger = logging.getLogger(__name__)


class Audit:
    """Pages through the unfinished runs and publishes what has no way forward."""

    def __init__(self, pool: asyncpg.Pool, leadership: Leadership) -> None:
        self._pool = pool
        self._leadership = leadership

    async def run_once(self) -> Pass:
        """Make one full pass; the gauge changes only at its end."""
        if not self._leadership.is_leader:
            NO_WAY_FORWARD.set(0)
            return Pass()
        found: list[Stuck] = []
        last = NO_RUN
        while True:
            async with acquire(self._pool) as connection:
                stuck, end = await stuck_page(connection, last, runs=PAGE)
            found += stuck
            if end is None:
                break
            last = end
        NO_WAY_FORWARD.set(len(found))
        for one in found[:MAX_LOGGED]:
            _report(one)
        return Pass({"no_way_forward": len(found)})


def _report(stuck: Stuck) -> None:
    log(
        _logger,
        "audit.no_way_forward",
        level=logging.ERROR,
        org=stuck.org,
        run=str(stuck.run_id),
        step=stuck.step,
        status=stuck.status,
        missing=stuck.missing,
    )
