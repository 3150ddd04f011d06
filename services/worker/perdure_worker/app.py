"""Puts a worker together from its config."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from perdure import Handler
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime.clock import Clock
from perdure_runtime.lifecycle import Component, Group, Service
from perdure_runtime.logs import log
from perdure_runtime.process import Process
from perdure_runtime.rpc.client import open_coordinator_client
from perdure_streams.client import open_streams
from redis.asyncio import Redis

from perdure_worker.config import WorkerConfig, make_name
from perdure_worker.connections import Connections
from perdure_worker.coordinator import Coordinator
from perdure_worker.door.assembly import Door
from perdure_worker.effect_calls import EffectCalls
from perdure_worker.egress.egress import Egress, EgressSettings
from perdure_worker.executors.grpc import GrpcExecutor, GrpcSettings
from perdure_worker.executors.grpc_methods import Methods
from perdure_worker.executors.handler_accounts import Outside
from perdure_worker.executors.http import HttpExecutor, HttpSettings
from perdure_worker.executors.http_calls import CallLimits
from perdure_worker.executors.tasks import TaskExecutor
from perdure_worker.leases import Renewals
from perdure_worker.pool_plans import PoolPlan, serving, thread_count
from perdure_worker.pools import Pool, Shared
from perdure_worker.readiness import coordinator_check, redis_check
from perdure_worker.registry import load_handlers
from perdure_worker.releases import Releases
from perdure_worker.steps import Executors, StepLimits
from perdure_worker.worker import Worker

_logger = logging.getLogger(__name__)


async def build(config: WorkerConfig, process: Process) -> Service:
    """Return the worker that `config` describes, and its door.

    Raises InvalidArgument when handlers cannot be loaded or could wait for a thread, and as
    `open_streams` does.
    """
    handlers = load_handlers(config.handlers)
    plans = serving(config.pool_plans(), handlers)
    threads = thread_count(config.threads, plans, handlers)
    name = make_name(config)
    log(_logger, "worker.serving", name=name, pools=_list(plans), handlers=_list(handlers))
    connections = await connect(config, name, process.clock)
    process.ops.add_check("redis", redis_check(connections.redis))
    process.ops.add_check("coordinator", coordinator_check(connections.coordinator))
    worker = assemble(config, name, handlers, plans, threads, connections, process.clock)
    return Group([worker, Door(config, name, connections, process.clock)])


async def connect(config: WorkerConfig, name: str, clock: Clock) -> Connections:
    """Open Redis, which must answer, and the coordinator, which may come later."""
    redis = await open_streams(
        config.redis_url, client_name=name, allow_eviction=config.redis_allow_eviction
    )
    client = open_coordinator_client(config)
    return Connections(redis, client, Coordinator(client, name, (), clock))


def assemble(
    config: WorkerConfig,
    name: str,
    handlers: Mapping[str, Handler],
    plans: Sequence[PoolPlan],
    threads: int,
    connections: Connections,
    clock: Clock,
) -> Worker:
    """Put the parts of a worker together."""
    slots = sum(plan.slots for plan in plans)
    renewals = Renewals(connections.coordinator, clock)
    releases = Releases(connections.coordinator, clock)
    effects = EffectCalls(connections.coordinator, clock)
    egress = Egress(EgressSettings(config.egress_networks, config.egress_ca_file, slots))
    http = HttpExecutor(_http_settings(config, slots), egress, effects)
    tasks = TaskExecutor(handlers, effects, Outside(connections.coordinator, http), threads)
    grpc = GrpcExecutor(_grpc_settings(config), egress, Methods(config.grpc_descriptors), effects)
    executors: Executors = {
        dispatch_pb2.STEP_KIND_TASK: tasks,
        dispatch_pb2.STEP_KIND_HTTP: http,
        dispatch_pb2.STEP_KIND_GRPC: grpc,
    }
    shared = Shared(
        worker=name,
        redis=connections.redis,
        client=connections.client,
        executors=executors,
        renewals=renewals,
        releases=releases,
        limits=_limits(config),
        reclaim_idle=config.reclaim_idle,
        max_items=config.max_items,
    )
    pools = [Pool(plan, shared, clock) for plan in plans]
    foundation: list[Service] = [
        _Closing(connections.redis),
        connections.client,
        *(pool.reports for pool in pools),
        releases,
        renewals,
        effects,
        egress,
        http,
        grpc,
        tasks,
        *(pool.intake for pool in pools),
    ]
    return Worker(foundation, pools)


class _Closing(Component):
    """Closes the connections to Redis when all that used them has ended."""

    def __init__(self, redis: Redis) -> None:
        super().__init__()
        self._redis = redis

    async def on_start(self) -> None:
        """Nothing to do: they are open."""

    async def on_stop(self) -> None:
        """Close them."""
        await self._redis.aclose()


def _limits(config: WorkerConfig) -> StepLimits:
    return StepLimits(
        chain_steps=config.chain_steps,
        chain_seconds=config.chain_seconds,
        lease_margin=config.lease_margin,
        max_output=config.max_output_bytes,
    )


def _http_settings(config: WorkerConfig, slots: int) -> HttpSettings:
    limits = CallLimits(config.connect_timeout, config.read_timeout, config.max_response_bytes)
    return HttpSettings(limits, total=config.call_timeout, connections=slots)


def _grpc_settings(config: WorkerConfig) -> GrpcSettings:
    return GrpcSettings(config.connect_timeout, config.call_timeout, config.max_response_bytes)


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(str, names)) or "none"
