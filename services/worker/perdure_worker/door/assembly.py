"""Puts the door together from the settings of its process."""

from __future__ import annotations

import time
from functools import partial

from perdure_contracts.v1.worker_service_pb2_grpc import add_WorkerServiceServicer_to_server
from perdure_runtime.clock import Clock
from perdure_runtime.gate.identity import identify
from perdure_runtime.lifecycle import Group
from perdure_runtime.rpc.interceptor import CallRules
from perdure_runtime.rpc.server import RpcServer, ServerSettings
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Consumer
from perdure_streams.names import Queue

from perdure_worker.config import WorkerConfig
from perdure_worker.connections import Connections
from perdure_worker.coordinator import Coordinator
from perdure_worker.door.effects import Effects
from perdure_worker.door.gate import GateParts
from perdure_worker.door.handing import Handing
from perdure_worker.door.keeping import Keeping
from perdure_worker.door.key_calls import KeyCalls
from perdure_worker.door.lanes import KnownLanes
from perdure_worker.door.polls import Polls
from perdure_worker.door.queues import ServedQueue
from perdure_worker.door.results import ChainLimits, Results
from perdure_worker.door.servicer import Parts, WorkerServicer
from perdure_worker.door.table import RULES, SERVICE
from perdure_worker.door.tokens import TaskTokens
from perdure_worker.effect_calls import EffectCalls
from perdure_worker.intake import Intake
from perdure_worker.releases import Releases

POLL = f"/{SERVICE}/PollTasks"
UNTRACED = frozenset({POLL, f"/{SERVICE}/HeartbeatTasks"})
"""They wait, or come every few seconds; tasks carry their trace themselves."""

LONGEST_CALL = 20.0
LONGEST_POLL = 65.0
"""Seconds: longer than a poll waits, shorter than what a connection lives on for after its age."""

RULES_OF_CALLS = CallRules(
    default_limit=LONGEST_CALL,
    limits={POLL: LONGEST_POLL},
    while_draining=frozenset(RULES),
    advise=True,
)
"""While the process drains polls are answered empty, and what is told of tasks is taken."""


class Door(Group):
    """The parts in the order in which they start; they stop in reverse."""

    def __init__(
        self, config: WorkerConfig, name: str, connections: Connections, clock: Clock
    ) -> None:
        name = f"{name}/door"
        redis, client = connections.redis, connections.client
        coordinator = Coordinator(client, name, (), clock, config.max_items)
        releases = Releases(coordinator, clock)
        intake = Intake(coordinator, Consumer(redis, (), name, clock=clock), clock)
        lanes = KnownLanes(coordinator, clock)

        def serve(queue: Queue) -> ServedQueue:
            return ServedQueue(queue, redis, name, intake, releases, config.reclaim_idle, clock)

        polls = Polls(serve, lanes, Announcer(redis, name), releases, clock)
        handing = Handing(TaskTokens(config.task_token_keys), config.lease_margin, clock, time.time)
        chain = ChainLimits(config.chain_steps, config.chain_seconds)
        results = Results(
            coordinator, handing, releases, chain, lambda: self.server.draining.is_set(), clock
        )
        keeping = Keeping(coordinator)
        self.gate_parts = GateParts(config, KeyCalls(client), clock)
        calls = EffectCalls(coordinator, clock)
        servicer = WorkerServicer(
            Parts(polls, lanes, handing, keeping, results, releases, Effects(calls)), identify
        )
        self.server = RpcServer(
            {SERVICE: partial(add_WorkerServiceServicer_to_server, servicer)},
            ServerSettings.from_config(
                config, config.host, rules=RULES_OF_CALLS, untraced=UNTRACED
            ),
            certificates=config.public_certificates(),
            guard=self.gate_parts.gate.guard,
        )
        super().__init__(
            (releases, keeping, results, calls, intake, self.gate_parts, lanes, polls, self.server)
        )
