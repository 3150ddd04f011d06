"""Puts the coordinator together."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from uuid import UUID

import asyncpg
from perdure_contracts.internal.keda.external_scaler_pb2_grpc import (
    add_ExternalScalerServicer_to_server,
)
from perdure_contracts.internal.v1.budget_service_pb2_grpc import (
    add_BudgetServiceServicer_to_server,
)
from perdure_contracts.internal.v1.consent_service_pb2_grpc import (
    add_ConsentServiceServicer_to_server,
)
from perdure_contracts.internal.v1.control_service_pb2_grpc import (
    add_ControlServiceServicer_to_server,
)
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import (
    add_CoordinatorServiceServicer_to_server,
)
from perdure_contracts.internal.v1.key_service_pb2_grpc import (
    add_KeyServiceServicer_to_server,
)
from perdure_machine.changes import Changes
from perdure_machine.subjects import SubjectKey
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Group, Service
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.process import Process
from perdure_runtime.rpc.server import RpcServer, ServerSettings
from perdure_store import budgets, causes, erasures, run_migrations
from perdure_store.apply.applier import Applier
from perdure_store.apply.batch import Plain
from perdure_store.apply.catalogue import Catalogue
from perdure_store.apply.hand_overs import RememberedRuns
from perdure_store.apply.run_ids import RunIds
from perdure_store.apply.starter import Starter, StartOutcome, StartRequest
from perdure_store.closing import Closing, schema_check
from perdure_store.held import HeldConnection
from perdure_store.leases import HeldLease, RenewalAnswer, renew_leases
from perdure_store.pool import acquire, open_pool
from perdure_store.signals import Kept, KeyedSignal, keep_signals
from perdure_store.timers import FailedDelivery, drop_orphans, put_off

from perdure_coordinator.budget_servicer import Budgets
from perdure_coordinator.children import Children
from perdure_coordinator.committers import Committers
from perdure_coordinator.config import CoordinatorConfig
from perdure_coordinator.consent_servicer import Consent
from perdure_coordinator.counting import PlainCounts, count
from perdure_coordinator.credentials import Credentials
from perdure_coordinator.grants import Grants
from perdure_coordinator.handing import Handing
from perdure_coordinator.handlers.fire_timers import Firing, PutOffs
from perdure_coordinator.key_servicer import Keys
from perdure_coordinator.offers import Offers
from perdure_coordinator.prepared import plain_message
from perdure_coordinator.scaler import Scaler
from perdure_coordinator.sealing import parse_keys
from perdure_coordinator.servicers import Connections, Control, Coordinator
from perdure_coordinator.signalling import Keeping, Signals
from perdure_coordinator.telling import Telling
from perdure_coordinator.wakeups import WakeUps

HOT = "perdure.internal.v1.CoordinatorService"
CONTROL = "perdure.internal.v1.ControlService"
SCALER = "externalscaler.ExternalScaler"
CONSENT = "perdure.internal.v1.ConsentService"
BUDGETS = "perdure.internal.v1.BudgetService"
KEYS = "perdure.internal.v1.KeyService"

CALLERS = frozenset({"ingest", "worker", "timer", "sweeper", "keda"})
"""The services that may call; KEDA asks for the backlog, by a certificate of its own."""

CALLERS_OF = MappingProxyType(
    {
        f"/{KEYS}": ("ingest",),
        f"/{KEYS}/CheckKey": ("ingest", "worker"),
        f"/{KEYS}/NoteKeyUse": ("ingest", "worker"),
        f"/{CONSENT}": ("ingest",),
        f"/{BUDGETS}": ("ingest",),
    }
)
"""What only some of them may call: who could make a key could then be anybody."""

UNTRACED = frozenset(
    f"/{HOT}/{method}"
    for method in (
        "StartRun",
        "BeginRuns",
        "CancelRun",
        "CommandRun",
        "Signal",
        "DeliverSignals",
        "AcquireLease",
        "AwaitStep",
        "RenewLease",
        "ReleaseLease",
        "ReportResult",
        "BeginEffect",
        "SettleEffect",
        "DecideEffect",
        "FireTimers",
        "ExpireLeases",
        "ExpireRuns",
        "SweepConnections",
        "Converse",
    )
)
"""Batched calls carry the trace context of each item themselves (design P5)."""

MAX_STARTS = 128
"""Runs that one transaction starts at most."""

MAX_SIGNALS = 128
"""Signals by key that one transaction stores at most."""

MAX_RENEWALS = 64
"""Renewing calls that one statement serves at most."""

MAX_PUT_OFFS = 256
"""Timers that one statement puts off at most."""


async def build(config: CoordinatorConfig, process: Process) -> Service:
    """Return the service, to be started."""
    spare = await open_pool(
        config.database_url,
        size=config.spare_connections,
        application_name="perdure-coordinator-spare",
    )
    catalogue, run_ids = Catalogue(), RunIds()
    async with acquire(spare) as connection:
        await run_ids.synchronise(connection)
    wake_ups = WakeUps(config.direct_url, process.clock, enabled=config.wake_ups)
    retention, counts = config.start_key_retention, PlainCounts()

    def committed(changes: Sequence[Changes]) -> None:
        wake_ups.committed(changes)
        count(changes)

    def started(changes: Sequence[Changes]) -> None:
        wake_ups.committed(changes, left=handing.begin(changes))
        count(changes)

    def plainly_written(written: Collection[Plain]) -> None:
        wake_ups.plainly_written(ended=counts.add(written) > 0)

    subjects = SubjectKey(config.subject_key.encode())
    remembered = RememberedRuns(config.remembered_runs)
    applier = Applier(
        catalogue,
        retention=retention,
        committed=committed,
        plainly_written=plainly_written,
        subjects=subjects,
        remembered=remembered,
    )
    starter = Starter(
        catalogue,
        run_ids,
        retention=retention,
        committed=started,
        subjects=subjects,
        remembered=remembered,
    )
    committers = Committers(
        applier,
        config.database_url,
        spare,
        process.clock,
        count=config.committers,
        max_batch=config.max_batch,
        prepare=plain_message,
    )
    starting = _held(config, process, "starts")
    starts = Batcher[StartRequest, StartOutcome](partial(_start, starter, starting), MAX_STARTS)
    keeping_held = _held(config, process, "signals")
    keeping = Keeping(partial(_keep, keeping_held, config.early_signal_retention), MAX_SIGNALS)
    signals = Signals(committers, keeping)
    # Of their own, so that runs that somebody else holds cannot make leases run out.
    renewing = _held(config, process, "renewals")
    renewals = Batcher[Sequence[HeldLease], Sequence[RenewalAnswer]](
        partial(_renew, renewing), MAX_RENEWALS
    )
    put_offs = PutOffs(partial(_put_off, spare), MAX_PUT_OFFS)
    children = Children(committers, starts, spare, retention=retention)
    firing = Firing(committers, children, signals, put_offs, partial(_go_on, spare))
    keys = parse_keys(config.credential_keys)
    credentials = Credentials(spare, keys)
    grants = Grants(committers, credentials)
    offers = Offers()
    handing = Handing(offers, committers, grants, wake_ups.rows_ready)
    telling = Telling(spare, wake_ups.rows_ready)
    connections = Connections(spare, keys, credentials, grants, telling, wake_ups.rows_ready)
    process.ops.add_check("schema", schema_check(spare))
    lanes = Loop(
        "coordinator.lanes",
        partial(_refresh, catalogue, spare),
        LoopSettings(interval=config.lane_refresh),
    )
    draining = asyncio.Event()
    server = RpcServer(
        {
            HOT: partial(
                add_CoordinatorServiceServicer_to_server,
                Coordinator(
                    committers,
                    starts,
                    signals,
                    renewals,
                    firing,
                    spare,
                    connections,
                    offers,
                    draining,
                ),
            ),
            CONTROL: partial(
                add_ControlServiceServicer_to_server,
                Control(spare, catalogue, subjects, connections),
            ),
            SCALER: partial(add_ExternalScalerServicer_to_server, Scaler(spare)),
            CONSENT: partial(add_ConsentServiceServicer_to_server, Consent(spare, subjects)),
            BUDGETS: partial(add_BudgetServiceServicer_to_server, Budgets(spare)),
            KEYS: partial(add_KeyServiceServicer_to_server, Keys(spare)),
        },
        ServerSettings.from_config(config, config.host, untraced=UNTRACED),
        certificates=config.certificates(),
        peers=CALLERS,
        peers_of=CALLERS_OF,
        draining=draining,
    )
    closing = Closing(spare, starting, keeping_held, renewing)
    batchers: list[Service] = [put_offs, telling, committers, handing, starts, keeping, renewals]
    return Group([closing, wake_ups, lanes, *batchers, server])


def _held(config: CoordinatorConfig, process: Process, purpose: str) -> HeldConnection:
    name = f"perdure-coordinator-{purpose}"
    return HeldConnection(config.database_url, process.clock, application_name=name)


async def _start(
    starter: Starter, held: HeldConnection, batch: list[StartRequest]
) -> list[StartOutcome]:
    return await starter.start(await held.get(), batch)


async def _keep(
    held: HeldConnection, patience: float, batch: list[KeyedSignal]
) -> list[Kept | PerdureError]:
    return await keep_signals(await held.get(), batch, patience=patience)


async def _renew(
    held: HeldConnection, calls: list[Sequence[HeldLease]]
) -> list[Sequence[RenewalAnswer]]:
    leases = list(chain.from_iterable(calls))
    answers = iter(await renew_leases(await held.get(), leases))
    return [[next(answers) for _ in call] for call in calls]


async def _put_off(spare: asyncpg.Pool, failed: list[FailedDelivery]) -> list[bool]:
    async with acquire(spare) as connection:
        await drop_orphans(connection, [one.timer_id for one in failed])
        parking = await put_off(connection, failed)
    return [one.timer_id in parking for one in failed]


async def _go_on(spare: asyncpg.Pool, org: str, owner: UUID, timer_id: int) -> bool:
    async with acquire(spare) as connection:
        for cursor in (causes.go_on, run_migrations.go_on, erasures.go_on, budgets.go_on):
            if await cursor(connection, org, owner, timer_id):
                return True
    return False


async def _refresh(catalogue: Catalogue, spare: asyncpg.Pool) -> Pass:
    async with acquire(spare) as connection:
        await catalogue.refresh(connection)
    return Pass()
