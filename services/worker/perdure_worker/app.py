"""Puts a worker together from its config."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perdure import Handler
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime.clock import Clock
from perdure_runtime.lifecycle import Component, Service
from perdure_runtime.logs import log
from perdure_runtime.process import Process
from perdure_runtime.rpc.client import RpcClient, open_channel
from perdure_streams.announce import Announcer
from perdure_streams.client import open_streams
from perdure_streams.consumer import Consumer, Entry
from perdure_streams.names import Queue
from redis.asyncio import Redis

from perdure_worker.announcements import Announcements
from perdure_worker.config import WorkerConfig, make_name
from perdure_worker.coordinator import Coordinator
from perdure_worker.egress.egress import Egress, EgressSettings
from perdure_worker.executors.http import HttpExecutor, HttpSettings
from perdure_worker.executors.http_calls import CallLimits
from perdure_worker.executors.tasks import TaskExecutor
from perdure_worker.intake import Intake
from perdure_worker.lanes import Lanes
from perdure_worker.leases import Renewals
from perdure_worker.reader import Reader
from perdure_worker.readiness import coordinator_check, redis_check
from perdure_worker.registry import load_handlers
from perdure_worker.releases import Releases
from perdure_worker.reports import Reports
from perdure_worker.slots import Slots
from perdure_worker.steps import Executors, StepLimits, Steps
from perdure_worker.worker import Worker, WorkerParts

COORDINATOR_SERVICE = "perdure.internal.v1.CoordinatorService"
SHARED_OWNER = "shared"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Connections:
    """What a worker reaches others through."""

    redis: Redis
    client: RpcClient
    coordinator: Coordinator


async def build(config: WorkerConfig, process: Process) -> Service:
    """Return the worker that `config` describes.

    Raises InvalidArgument when handlers cannot be loaded, and as `open_streams` does.
    """
    handlers = load_handlers(config.handlers)
    queues = queues_to_serve(config.queues, handlers)
    name = make_name(config)
    log(_logger, "worker.serving", name=name, queues=_list(queues), handlers=_list(handlers))
    connections = await connect(config, name, queues, process.clock)
    process.ops.add_check("redis", redis_check(connections.redis))
    process.ops.add_check("coordinator", coordinator_check(connections.coordinator))
    return assemble(config, name, handlers, queues, connections, process.clock)


def queues_to_serve(asked: Sequence[str], handlers: Mapping[str, Handler]) -> list[Queue]:
    """Return the queues to read: without handlers those of orgs are left to other workers."""
    queues = [Queue.parse(text) for text in asked]
    return [queue for queue in queues if handlers or queue.owner == SHARED_OWNER]


async def connect(
    config: WorkerConfig, name: str, queues: Sequence[Queue], clock: Clock
) -> Connections:
    """Open Redis, which must answer, and the coordinator, which may come later."""
    redis = await open_streams(
        config.redis_url, client_name=name, allow_eviction=config.redis_allow_eviction
    )
    client = RpcClient(open_channel(config.coordinator_address, health_service=COORDINATOR_SERVICE))
    coordinator = Coordinator(client, name, [str(queue) for queue in queues], clock)
    return Connections(redis, client, coordinator)


def assemble(
    config: WorkerConfig,
    name: str,
    handlers: Mapping[str, Handler],
    queues: Sequence[Queue],
    connections: Connections,
    clock: Clock,
) -> Worker:
    """Put the parts of a worker together."""
    coordinator = connections.coordinator
    consumer = Consumer(connections.redis, (), name, clock=clock)
    renewals, reports = Renewals(coordinator, clock), Reports(coordinator, clock)
    releases, intake = Releases(coordinator, clock), Intake(coordinator, consumer, clock)
    tasks = TaskExecutor(handlers, config.threads)
    egress = Egress(EgressSettings(config.egress_networks, config.egress_ca_file, config.slots))
    http = HttpExecutor(_http_settings(config), egress)
    executors: Executors = {
        dispatch_pb2.STEP_KIND_TASK: tasks,
        dispatch_pb2.STEP_KIND_HTTP: http,
    }
    steps = Steps(executors, renewals, reports, releases, _limits(config), clock)
    slots = Slots(config.slots)
    lanes = Lanes(coordinator, consumer, queues, clock)
    announcements = Announcements(Announcer(connections.redis, name), queues, slots, clock)

    async def take(entry: Entry) -> None:
        await intake.take(entry, steps.run_chain)

    reader = Reader(consumer, slots, lambda: lanes.are_known, take, config.reclaim_idle, clock)
    slots.on_change(announcements.wake)
    slots.on_change(reader.wake)
    closing = _Closing(connections.redis)
    return Worker(
        WorkerParts(
            foundation=(
                closing,
                connections.client,
                reports,
                releases,
                renewals,
                tasks,
                egress,
                http,
                intake,
            ),
            lanes=lanes,
            steps=steps,
            slots=slots,
            reader=reader,
            announcements=announcements,
        )
    )


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


def _http_settings(config: WorkerConfig) -> HttpSettings:
    limits = CallLimits(config.connect_timeout, config.read_timeout, config.max_response_bytes)
    return HttpSettings(limits, total=config.call_timeout, connections=config.slots)


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(str, names)) or "none"
