"""Puts one ingest process together."""

from __future__ import annotations

import asyncio

import asyncpg
import grpc
from perdure_contracts.v1 import (
    audit_service_pb2_grpc,
    budget_service_pb2_grpc,
    connection_service_pb2_grpc,
    consent_service_pb2_grpc,
    dead_letter_service_pb2_grpc,
    effect_service_pb2_grpc,
    job_service_pb2_grpc,
    key_service_pb2_grpc,
    lane_service_pb2_grpc,
    member_service_pb2_grpc,
    run_service_pb2_grpc,
    system_service_pb2_grpc,
    workflow_service_pb2_grpc,
)
from perdure_runtime.certificates import server_context
from perdure_runtime.gate.identity import Identify, identify
from perdure_runtime.lifecycle import Component, Group, Service
from perdure_runtime.process import Process
from perdure_runtime.rpc.client import open_coordinator_client
from perdure_runtime.rpc.server import Register, RpcServer, ServerSettings
from perdure_store.listen import Listener
from perdure_store.pool import acquire, open_pool
from perdure_store.schema_version import schema_ready

from perdure_ingest.access_servicers import AuditServicer, KeyServicer, MemberServicer
from perdure_ingest.budget_servicer import BudgetServicer
from perdure_ingest.call_rules import RULES_OF_CALLS
from perdure_ingest.config import IngestConfig
from perdure_ingest.connection_servicer import ConnectionServicer
from perdure_ingest.consent_servicer import ConsentServicer
from perdure_ingest.coordinator import Coordinator
from perdure_ingest.doors import Doors
from perdure_ingest.gate.assembly import GateParts
from perdure_ingest.http.server import HttpServer, HttpSettings
from perdure_ingest.job_schemas import JobSchemas
from perdure_ingest.job_servicer import JobServicer
from perdure_ingest.page_tokens import PageTokens
from perdure_ingest.servicers import (
    DeadLetterServicer,
    EffectServicer,
    LaneServicer,
    RunServicer,
    SystemServicer,
    WorkflowServicer,
)
from perdure_ingest.watch.watcher import RunWatcher

RUNS_CHANNEL = "perdure_runs"
"""Where coordinators say, after commits, that some run changed (P7)."""

POOL_CLOSE_SECONDS = 5.0


class Ingest(Group):
    """The parts of a process in the order in which they start; they stop in reverse."""

    def __init__(self, config: IngestConfig, pool: asyncpg.Pool) -> None:
        client = open_coordinator_client(config)
        coordinator = Coordinator(client)
        watcher = RunWatcher(pool, limit=config.watch_limit, poll_seconds=config.watch_poll_seconds)
        tokens = PageTokens(config.page_token_key)
        job_schemas = JobSchemas(pool)
        doors = Doors(pool, coordinator, tokens, job_schemas, watcher, config.watch_seconds)
        self.channel = client.channel
        self.pool = pool
        gate_parts = GateParts(config, pool, coordinator.keys)
        self.gate, self.key_use = gate_parts.gate, gate_parts.use
        served = services(doors, identify)
        public = config.public_certificates()
        self.server = RpcServer(
            served,
            ServerSettings.from_config(config, config.host, rules=RULES_OF_CALLS),
            certificates=public,
            guard=self.gate.guard,
        )
        self.http = HttpServer(
            served,
            HttpSettings.from_config(config, rules=RULES_OF_CALLS),
            tls=server_context(public) if public else None,
            guard=self.gate.guard,
        )
        listener = Listener(
            config.direct_url,
            RUNS_CHANNEL,
            watcher.wake,
            pool,
            application_name="perdure-ingest-listen",
        )
        super().__init__(
            (
                _OpenedPool(pool),
                coordinator,
                job_schemas,
                gate_parts,
                watcher,
                listener,
                self.server,
                self.http,
            )
        )

    async def database_ready(self) -> str:
        """Return when the database answers and has the schema that is needed."""
        async with acquire(self.pool) as connection:
            await schema_ready(connection)
        return ""

    async def coordinator_ready(self) -> str:
        """Return once the coordinator can be called."""
        state = self.channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.READY:
            await self.channel.wait_for_state_change(state)
            state = self.channel.get_state(try_to_connect=True)
        return ""


async def build(config: IngestConfig, process: Process) -> Service:
    """Make the process' service and say what its readiness depends on."""
    pool = await open_pool(
        config.database_url, size=config.database_pool_size, application_name="perdure-ingest"
    )
    ingest = Ingest(config, pool)
    process.ops.add_check("database", ingest.database_ready)
    process.ops.add_check("coordinator", ingest.coordinator_ready)
    return ingest


def services(doors: Doors, identify: Identify) -> dict[str, Register]:
    """Return what registers each public service."""
    runs = RunServicer(doors, identify)
    workflows = WorkflowServicer(doors, identify)
    dead_letters = DeadLetterServicer(doors, identify)
    lanes = LaneServicer(doors, identify)
    connections = ConnectionServicer(doors, identify)
    effects = EffectServicer(doors, identify)
    system = SystemServicer(doors, identify)
    consent = ConsentServicer(doors, identify)
    budgets = BudgetServicer(doors, identify)
    jobs = JobServicer(doors, identify)
    keys = KeyServicer(doors, identify)
    members = MemberServicer(doors, identify)
    audit = AuditServicer(doors, identify)
    return {
        "perdure.v1.RunService": lambda server: (
            run_service_pb2_grpc.add_RunServiceServicer_to_server(runs, server)
        ),
        "perdure.v1.WorkflowService": lambda server: (
            workflow_service_pb2_grpc.add_WorkflowServiceServicer_to_server(workflows, server)
        ),
        "perdure.v1.DeadLetterService": lambda server: (
            dead_letter_service_pb2_grpc.add_DeadLetterServiceServicer_to_server(
                dead_letters, server
            )
        ),
        "perdure.v1.BudgetService": lambda server: (
            budget_service_pb2_grpc.add_BudgetServiceServicer_to_server(budgets, server)
        ),
        "perdure.v1.ConsentService": lambda server: (
            consent_service_pb2_grpc.add_ConsentServiceServicer_to_server(consent, server)
        ),
        "perdure.v1.ConnectionService": lambda server: (
            connection_service_pb2_grpc.add_ConnectionServiceServicer_to_server(connections, server)
        ),
        "perdure.v1.JobService": lambda server: (
            job_service_pb2_grpc.add_JobServiceServicer_to_server(jobs, server)
        ),
        "perdure.v1.KeyService": lambda server: (
            key_service_pb2_grpc.add_KeyServiceServicer_to_server(keys, server)
        ),
        "perdure.v1.MemberService": lambda server: (
            member_service_pb2_grpc.add_MemberServiceServicer_to_server(members, server)
        ),
        "perdure.v1.AuditService": lambda server: (
            audit_service_pb2_grpc.add_AuditServiceServicer_to_server(audit, server)
        ),
        "perdure.v1.LaneService": lambda server: (
            lane_service_pb2_grpc.add_LaneServiceServicer_to_server(lanes, server)
        ),
        "perdure.v1.EffectService": lambda server: (
            effect_service_pb2_grpc.add_EffectServiceServicer_to_server(effects, server)
        ),
        "perdure.v1.SystemService": lambda server: (
            system_service_pb2_grpc.add_SystemServiceServicer_to_server(system, server)
        ),
    }


class _OpenedPool(Component):
    """Closes the pool when everything that reads has stopped."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__()
        self._pool = pool

    async def on_start(self) -> None:
        """Nothing to do: it is open."""

    async def on_stop(self) -> None:
        """Close it; a connection that does not come back in time is cut."""
        try:
            async with asyncio.timeout(POOL_CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()
