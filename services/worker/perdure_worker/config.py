"""The settings of a worker process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from perdure_runtime.config import setting
from perdure_runtime.config_groups import (
    MAX_PORT,
    CoordinatorClientConfig,
    GateConfig,
    GrpcConfig,
    PublicTlsConfig,
    RedisConfig,
    ServiceConfig,
)
from perdure_runtime.errors import FieldViolation
from perdure_runtime.identity import process_name

from perdure_worker.coordinator import MAX_ITEMS
from perdure_worker.egress.addresses import Network
from perdure_worker.outcome import MAX_OUTPUT_BYTES
from perdure_worker.pool_plans import MAX_SLOTS, PoolPlan, offering, pool_plans

MAX_NAME_CHARACTERS = 200
MIN_KEY_LENGTH = 16


@dataclass(frozen=True, kw_only=True)
class WorkerConfig(
    ServiceConfig, GrpcConfig, RedisConfig, CoordinatorClientConfig, PublicTlsConfig, GateConfig
):
    """What a worker serves, how much of it at once, and within which limits."""

    SERVICE = "worker"

    ops_port: int = setting(
        7429, min=0, max=MAX_PORT, help="Port of /livez, /readyz and /metrics; 0 takes a free one."
    )
    grpc_port: int = setting(
        7420,
        min=0,
        max=MAX_PORT,
        help="Port of the door for handlers that poll; 0 takes a free one.",
    )
    task_token_keys: tuple[str, ...] = setting(
        (),
        secret=True,
        help="Secrets that sign what handlers name their tasks by, each at least 16 characters, "
        "the same for all replicas: the first signs, each is believed. Empty makes a random one, "
        "and then a task can be told of only to the process that handed it out.",
    )
    name: str = setting(
        "", help="Name of this worker in histories and logs; empty is host:pid:random."
    )
    queues: tuple[str, ...] = setting(
        ("io:shared", "io:default", "slow:shared", "slow:default"),
        help="Queues to serve, each lane:owner; shared is the owner of built-in executors, an org "
        "that of its own handlers. Queues of orgs are served only when there are handlers.",
    )
    handlers: tuple[str, ...] = setting(
        (), help="Import paths of the Python modules whose handlers this worker serves."
    )
    slots: int = setting(16, min=1, max=MAX_SLOTS, unit="steps", help="Steps that run at once.")
    pools: tuple[str, ...] = setting(
        (),
        help="Pools of this worker, each `name slots lane:owner ...`, such as `quick 12 io:shared "
        "io:default`; none takes another's slots. Empty: one pool of `slots` that serves `queues`.",
    )
    threads: int = setting(
        0,
        min=0,
        max=MAX_SLOTS,
        unit="threads",
        help="Threads that `def` handlers run in, at least as many as slots; 0 is as many.",
    )
    chain_steps: int = setting(
        64, min=0, unit="steps", help="Most steps of one run taken in a row; 0 takes none."
    )
    offers: bool = setting(
        True,
        help="Whether a pool that has nothing to do waits at the coordinator for a step, which is "
        "sooner there than by Redis; of one slot it never does.",
    )
    chain_seconds: float = setting(
        5.0, min=0.0, unit="seconds", help="Longest time in which steps of one run follow in a row."
    )
    max_items: int = setting(
        MAX_ITEMS,
        min=1,
        max=MAX_ITEMS,
        unit="items",
        help="Most leases asked for, or results told, in one message to the coordinator.",
    )
    max_output_bytes: int = setting(
        MAX_OUTPUT_BYTES,
        min=1024,
        max=MAX_OUTPUT_BYTES,
        unit="bytes",
        help="Largest output of a step; a larger one fails it.",
    )
    max_response_bytes: int = setting(
        900 * 1024,
        min=1024,
        max=MAX_OUTPUT_BYTES,
        unit="bytes",
        help="Largest answer that an outside call may be given.",
    )
    call_timeout: float = setting(
        30.0,
        min=0.1,
        max=3600.0,
        unit="seconds",
        help="Longest time of an outside call whose node sets no timeout.",
    )
    connect_timeout: float = setting(
        5.0,
        min=0.1,
        max=300.0,
        unit="seconds",
        help="Longest time until an outside call has its connection, the look-up of the name "
        "included.",
    )
    read_timeout: float = setting(
        30.0,
        min=0.1,
        max=3600.0,
        unit="seconds",
        help="Longest time in which the other side of an HTTP call sends nothing.",
    )
    egress_allow: tuple[str, ...] = setting(
        (),
        help="Networks, such as 10.1.0.0/16, that outside calls may reach although they are not on "
        "the public internet. What stands there is open to whoever may publish a workflow.",
    )
    egress_ca_file: str = setting(
        "",
        help="File of certificates in PEM that outside calls believe besides the public "
        "authorities.",
    )
    grpc_descriptors: tuple[str, ...] = setting(
        (),
        help="Files with sets of descriptors (FileDescriptorSet) of gRPC services to call; servers "
        "of other services are asked what their methods take.",
    )
    lease_margin: float = setting(
        1.0,
        min=0.0,
        max=5.0,
        unit="seconds",
        help="A step whose lease has less than this left when it arrives is handed back.",
    )
    reclaim_idle: float = setting(
        15.0,
        min=10.0,
        unit="seconds",
        help="Age at which an entry that another worker read and never answered is taken over.",
    )
    redis_allow_eviction: bool = setting(
        False, help="Whether a Redis that may evict streams is accepted."
    )

    def pool_plans(self) -> list[PoolPlan]:
        """Return the pools that are asked for. Raises ValueError with what is wrong."""
        plans = pool_plans(self.pools, self.queues, self.slots)
        return offering(plans) if self.offers else plans

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse queues that are none."""
        yield from super().problems()
        field = "pools" if self.pools else "queues"
        try:
            plans = self.pool_plans()
        except ValueError as problem:
            yield FieldViolation(field, str(problem))
        else:
            if not any(plan.queues for plan in plans):
                yield FieldViolation(field, "must name at least one queue, such as io:shared")
        if any(len(key) < MIN_KEY_LENGTH for key in self.task_token_keys):
            yield FieldViolation(
                "task_token_keys", f"each must have {MIN_KEY_LENGTH} characters or more"
            )
        if len(self.name) > MAX_NAME_CHARACTERS:
            yield FieldViolation("name", f"must have at most {MAX_NAME_CHARACTERS} characters")

    @property
    def egress_networks(self) -> Sequence[Network]:
        """The networks of `egress_allow`."""
        return [ip_network(text.strip()) for text in self.egress_allow]

    def _network_problems(self) -> Iterable[FieldViolation]:
        for text in self.egress_allow:
            try:
                ip_network(text.strip())
            except ValueError as problem:
                yield FieldViolation("egress_allow", f"must hold networks: {problem}")


def make_name(config: WorkerConfig) -> str:
    """Return the worker's name, a new one if the config gives none."""
    return config.name or process_name()
