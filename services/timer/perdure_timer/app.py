"""Puts the timer together."""

from __future__ import annotations

import asyncpg
from perdure_runtime.election import Election, ElectionSettings
from perdure_runtime.identity import process_name
from perdure_runtime.lifecycle import Group, Service
from perdure_runtime.loop import Loop, LoopSettings
from perdure_runtime.process import Process
from perdure_runtime.rpc.client import RpcClient, open_coordinator_client
from perdure_store.closing import Closing, schema_check
from perdure_store.leaders import PostgresLeaseStore
from perdure_store.listen import Listener
from perdure_store.pool import open_pool

from perdure_timer.config import TimerConfig
from perdure_timer.delivery import Delivery, wake_later

APPLICATION_NAME = "perdure-timer"
CHANNEL = "perdure_timers"


async def build(config: TimerConfig, process: Process) -> Service:
    """Return the service, to be started."""
    pool = await open_pool(config.database_url, size=4, application_name=APPLICATION_NAME)
    process.ops.add_check("schema", schema_check(pool))
    client = open_coordinator_client(config)
    lease = config.lease
    election = Election(
        "timer",
        process_name(),
        PostgresLeaseStore(pool),
        ElectionSettings(ttl=lease, renew_every=lease * 0.3, margin=lease * 0.1),
    )
    loops = [_loop(config, pool, client, election, internal=internal) for internal in (False, True)]

    def wake(_leads: bool = True) -> None:
        for loop in loops:
            loop.wake()

    listener = Listener(
        config.direct_url,
        CHANNEL,
        wake,
        pool,
        application_name=APPLICATION_NAME,
    )
    election.leadership.on_change(wake)
    return Group([Closing(pool), client, election, *loops, listener])


def _loop(
    config: TimerConfig,
    pool: asyncpg.Pool,
    client: RpcClient,
    election: Election,
    *,
    internal: bool,
) -> Loop:
    delivery = Delivery(
        pool,
        client,
        election.leadership,
        internal=internal,
        horizon=config.interval,
        wake_in=wake_later(lambda: loop.wake()),
    )
    name = "timer.internal" if internal else "timer.due"
    loop = Loop(name, delivery.run_once, LoopSettings(interval=config.interval))
    return loop
