"""Puts the sweeper together."""

from __future__ import annotations

from perdure_runtime.election import Election, ElectionSettings
from perdure_runtime.identity import process_name
from perdure_runtime.lifecycle import Group, Service
from perdure_runtime.loop import Loop, LoopSettings
from perdure_runtime.process import Process
from perdure_runtime.rpc.client import open_coordinator_client
from perdure_store.closing import Closing, schema_check
from perdure_store.leaders import PostgresLeaseStore
from perdure_store.pool import open_pool

from perdure_sweeper.audit import Audit
from perdure_sweeper.config import SweeperConfig
from perdure_sweeper.connections import Connections
from perdure_sweeper.deliveries import Deliveries
from perdure_sweeper.expiry import Expiry
from perdure_sweeper.upkeep import Months, OldSignals, StartKeys
from perdure_sweeper.vitals import Vitals

APPLICATION_NAME = "perdure-sweeper"


async def build(config: SweeperConfig, process: Process) -> Service:
    """Return the service, to be started."""
    pool = await open_pool(config.database_url, size=5, application_name=APPLICATION_NAME)
    process.ops.add_check("schema", schema_check(pool))
    client = open_coordinator_client(config)
    lease = config.lease
    election = Election(
        "sweeper",
        process_name(),
        PostgresLeaseStore(pool),
        ElectionSettings(ttl=lease, renew_every=lease * 0.3, margin=lease * 0.1),
    )
    leadership = election.leadership
    expiry = Expiry(pool, client, leadership, process.clock)
    deliveries = Deliveries(pool, client, leadership)
    connections = Connections(pool, client, leadership)
    audit, upkeep = LoopSettings(config.audit_interval), LoopSettings(config.upkeep_interval)
    loops = [
        Loop("sweeper.expiry", expiry.run_once, LoopSettings(config.interval)),
        Loop("sweeper.signals", deliveries.run_once, LoopSettings(config.interval)),
        Loop("sweeper.blocked", connections.unblock, LoopSettings(config.blocked_interval)),
        Loop("sweeper.connections", connections.mend, LoopSettings(config.interval)),
        Loop("sweeper.audit", Audit(pool, leadership).run_once, audit),
        Loop("sweeper.vitals", Vitals(pool, leadership).run_once, audit),
        Loop("sweeper.months", Months(pool, leadership).run_once, upkeep),
        Loop("sweeper.start_keys", StartKeys(pool, leadership).run_once, upkeep),
        Loop("sweeper.old_signals", OldSignals(pool, leadership).run_once, upkeep),
    ]

    def wake(_leads: bool) -> None:
        for loop in loops:
            loop.wake()

    leadership.on_change(wake)
    return Group([Closing(pool), client, election, *loops])
