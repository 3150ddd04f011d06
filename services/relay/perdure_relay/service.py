"""The relay as one component: connections, elections, loops and wake-ups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
from perdure_runtime.backoff import Backoff
from perdure_runtime.election import ElectionSettings
from perdure_runtime.identity import process_name
from perdure_runtime.lifecycle import Component, Group
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.ops import OpsServer
from perdure_runtime.process import Process
from perdure_store.listen import Listener
from perdure_store.pool import acquire, open_pool
from perdure_store.schema_version import schema_ready
from perdure_streams.client import open_streams
from perdure_streams.errors import classified
from perdure_streams.freed import FreedListener
from redis.asyncio import Redis

from perdure_relay.ages import Ages
from perdure_relay.config import RelayConfig
from perdure_relay.dispatch import DispatchSettings
from perdure_relay.parts import make_parts

APPLICATION_NAME = "perdure-relay"
CHANNEL = "perdure_outbox"
AGES_SECONDS = 5.0
CONSUMERS_SECONDS = 600.0
RETIRED_SECONDS = 10.0
BACKOFF = Backoff(base=0.05, factor=2.0, cap=2.0)


class RelayService(Component):
    """Opens what the relay needs, runs it, and closes it in reverse order."""

    def __init__(self, config: RelayConfig, ops: OpsServer) -> None:
        super().__init__()
        self._config = config
        self._pool: asyncpg.Pool | None = None
        self._client: Redis | None = None
        self._group: Group | None = None
        ops.add_check("database", self._check_database)
        ops.add_check("redis", self._check_redis)

    async def on_start(self) -> None:
        """Connect, then start elections, loops and listeners.

        Raises FailedPrecondition when the schema is too old or Redis may evict streams, and
        Unavailable when either server cannot be reached.
        """
        try:
            self._pool = await open_pool(
                self._config.database_url,
                size=self._config.database_pool_size,
                application_name=APPLICATION_NAME,
            )
            async with acquire(self._pool) as connection:
                await schema_ready(connection)
            self._client = await open_streams(
                self._config.redis_url,
                client_name=APPLICATION_NAME,
                allow_eviction=self._config.redis_allow_eviction,
            )
            self._group = assemble(self._config, self._pool, self._client)
            await self._group.start()
        except BaseException:
            await self._close()
            raise

    async def drain(self) -> None:
        """Begin no further pass."""
        if self._group is not None:
            await self._group.drain()

    async def on_stop(self) -> None:
        """Stop the loops, step down, disconnect."""
        try:
            if self._group is not None:
                await self._group.stop()
        finally:
            await self._close()

    async def _close(self) -> None:
        client, pool = self._client, self._pool
        self._client = self._pool = self._group = None
        if client is not None:
            await client.aclose()
        if pool is not None:
            await pool.close()

    async def _check_database(self) -> str:
        if self._pool is None:
            return "not connected"
        async with acquire(self._pool) as connection:
            await schema_ready(connection)
        return ""

    async def _check_redis(self) -> str:
        if self._client is None:
            return "not connected"
        with classified():
            await self._client.ping()
        return ""


def assemble(config: RelayConfig, pool: asyncpg.Pool, client: Redis) -> Group:
    """Put loops and wake-ups around the parts; the loops stop before they step down."""
    ttl = config.lease_seconds
    parts = make_parts(
        pool,
        client,
        process_name(),
        DispatchSettings(config.buffer_entries, config.orgs_per_pass),
        on_gain=lambda: dispatching.wake(),
        election=ElectionSettings(ttl=ttl, renew_every=ttl * 0.3, margin=ttl * 0.1),
    )
    dispatching = _loop("relay-dispatch", parts.dispatcher.run_once, config.poll_seconds)

    def freed() -> None:
        if parts.dispatcher.wants_room:
            dispatching.wake()

    return Group(
        [
            parts.duties,
            dispatching,
            _loop("relay-recheck", parts.recovery.run_once, config.recheck_seconds),
            _loop("relay-consumers", parts.recovery.forget_consumers, CONSUMERS_SECONDS),
            _loop("relay-retired", parts.retired.run_once, RETIRED_SECONDS),
            _loop("relay-ages", Ages(pool).run_once, AGES_SECONDS),
            FreedListener(client, freed),
            Listener(
                config.direct_url,
                CHANNEL,
                dispatching.wake,
                pool,
                application_name=f"{APPLICATION_NAME}-listen",
            ),
        ]
    )


def _loop(name: str, run_once: Callable[[], Awaitable[Pass]], interval: float) -> Loop:
    return Loop(name, run_once, LoopSettings(interval, backoff=BACKOFF))


async def build(config: RelayConfig, process: Process) -> RelayService:
    """Make the service of a process, as `run_service` asks for it."""
    return RelayService(config, process.ops)
