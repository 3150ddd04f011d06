"""The six services as processes: what each is called, listens on and is told.

Each is told only what its duty needs: the worker, for one, never learns a database URL.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

from perdure_stack.errors import StackError
from perdure_stack.ports import LOOPBACK, free_ports, port_is_free

# In order of start; the stop goes backwards, so that the doors close first and work can still be
# reported until the end.
SERVICES = ("coordinator", "relay", "worker", "timer", "sweeper", "ingest")
WITH_DATABASE = frozenset({"coordinator", "relay", "timer", "sweeper", "ingest"})
CALLS_COORDINATOR = frozenset({"worker", "timer", "sweeper", "ingest"})
WITH_REDIS = frozenset({"relay", "worker"})

GRPC_PORTS: Mapping[str, int] = MappingProxyType(
    {"ingest": 7400, "coordinator": 7410, "worker": 7420}
)
HTTP_PORT = 7401
"""Ingest's port for HTTP/JSON."""

OPS_PORTS: Mapping[str, int] = MappingProxyType(
    {
        "ingest": 7409,
        "coordinator": 7419,
        "worker": 7429,
        "relay": 7439,
        "timer": 7449,
        "sweeper": 7459,
    }
)

OWN_NETWORKS = ("127.0.0.0/8", "::1/128")
"""Where outside calls may go besides the public internet: to what is tried out beside the stack."""


SUBJECT_KEY = "of a stack for development, known to all"
"""What such a stack hashes subjects with; one that holds people's data is given another."""

CREDENTIAL_KEYS = "dev:b2YgYSBzdGFjayBmb3IgZGV2ZWxvcG1lbnQgb25seSE="
"""What such a stack seals credentials with; one that holds real ones is given another."""


TOKEN_KEYS = "of a stack for development known to all"
"""What the workers of such a stack sign tokens of tasks with."""


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One process to run: its name, program with arguments, environment, and its readiness URL."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    ready_url: str


@dataclass(frozen=True, slots=True)
class ServicePorts:
    """The loopback ports of a stack; ``ops`` is by process name, such as ``worker-2``, and so is
    ``doors``, where workers take calls of handlers.
    """

    ingest: int
    http: int
    coordinator: int
    doors: Mapping[str, int]
    ops: Mapping[str, int]

    def address(self, service: str) -> str:
        """Return ``host:port`` of the gRPC server of ingest or the coordinator."""
        return f"{LOOPBACK}:{self.ingest if service == 'ingest' else self.coordinator}"

    def door(self, name: str = "worker") -> str:
        """Return ``host:port`` of a worker's gRPC server."""
        return f"{LOOPBACK}:{self.doors[name]}"

    @property
    def http_url(self) -> str:
        """The URL of ingest's HTTP/JSON, without a path."""
        return f"http://{LOOPBACK}:{self.http}"

    def ops_url(self, name: str) -> str:
        """Return the URL of a process' ops server, without a path."""
        return f"http://{LOOPBACK}:{self.ops[name]}"


def process_names(workers: int) -> tuple[str, ...]:
    """Return the processes of a stack in order of start: ``worker``, ``worker-2`` and so on."""
    extra = tuple(f"worker-{number}" for number in range(2, workers + 1))
    after = SERVICES.index("worker") + 1
    return SERVICES[:after] + extra + SERVICES[after:]


def service_of(name: str) -> str:
    """Return the service that a process runs: ``worker`` for ``worker-2``."""
    return name.partition("-")[0]


def choose_free_ports(names: Sequence[str]) -> ServicePorts:
    """Choose ports for these processes that nobody listens on now."""
    doors = _workers(names)
    ingest, http, coordinator, *others = free_ports(3 + len(doors) + len(names))
    return ServicePorts(
        ingest,
        http,
        coordinator,
        dict(zip(doors, others[: len(doors)], strict=True)),
        dict(zip(names, others[len(doors) :], strict=True)),
    )


def choose_default_ports(names: Sequence[str]) -> ServicePorts:
    """Choose the documented ports; only workers beyond the first get free ones.

    Raises StackError naming the first of them that is taken.
    """
    for port, owner in _default_owners().items():
        if not port_is_free(port):
            raise StackError.port_busy(owner, port, "take free ports with --free-ports")
    free = choose_free_ports(names)
    return ServicePorts(
        GRPC_PORTS["ingest"],
        HTTP_PORT,
        GRPC_PORTS["coordinator"],
        {name: GRPC_PORTS.get(name, port) for name, port in free.doors.items()},
        {name: OPS_PORTS.get(name, port) for name, port in free.ops.items()},
    )


def _workers(names: Sequence[str]) -> list[str]:
    return [name for name in names if service_of(name) == "worker"]


def _default_owners() -> dict[int, str]:
    owners = {port: f"{service}'s gRPC server" for service, port in GRPC_PORTS.items()}
    owners[HTTP_PORT] = "ingest's HTTP server"
    return owners | {port: f"{service}'s ops server" for service, port in OPS_PORTS.items()}


@dataclass(frozen=True, slots=True)
class Backends:
    """How services reach their servers; the two functions give the URL for a service's role."""

    database_url: Callable[[str], str]
    direct_url: Callable[[str], str]
    redis_url: str


def service_specs(
    ports: ServicePorts, backends: Backends, extra_env: Mapping[str, Mapping[str, str]]
) -> Sequence[ServiceSpec]:
    """Describe every process of a stack in order of start.

    ``extra_env`` adds variables by service or by process name; the latter wins.
    Raises StackError when a service is not installed.
    """
    return [_spec(name, ports, backends, extra_env) for name in ports.ops]


def _spec(
    name: str, ports: ServicePorts, backends: Backends, extra_env: Mapping[str, Mapping[str, str]]
) -> ServiceSpec:
    service = service_of(name)
    env = {
        **_environment(name, ports, backends),
        **extra_env.get(service, {}),
        **extra_env.get(name, {}),
    }
    return ServiceSpec(name, module_command(f"perdure_{service}"), env, _ready_url(name, ports))


def _ready_url(name: str, ports: ServicePorts) -> str:
    return f"{ports.ops_url(name)}/readyz"


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module. Raises StackError if there is none of that name."""
    if find_spec(module) is None:
        raise StackError.module_missing(module)
    return (sys.executable, "-m", module, *arguments)


def _environment(name: str, ports: ServicePorts, backends: Backends) -> dict[str, str]:
    service = service_of(name)
    env = {"PERDURE_HOST": LOOPBACK, "PERDURE_OPS_PORT": str(ports.ops[name])}
    if service == "ingest":
        env["PERDURE_GRPC_PORT"] = str(ports.ingest)
        env["PERDURE_HTTP_PORT"] = str(ports.http)
    if service == "coordinator":
        env["PERDURE_GRPC_PORT"] = str(ports.coordinator)
        keys = "PERDURE_COORDINATOR_CREDENTIAL_KEYS"
        env[keys] = os.environ.get(keys, CREDENTIAL_KEYS)
        env["PERDURE_SUBJECT_KEY"] = os.environ.get("PERDURE_SUBJECT_KEY", SUBJECT_KEY)
    if service == "worker":
        env["PERDURE_GRPC_PORT"] = str(ports.doors[name])
        tokens = "PERDURE_TASK_TOKEN_KEYS"
        env[tokens] = os.environ.get(tokens, TOKEN_KEYS)
        env["PERDURE_WORKER_EGRESS_ALLOW"] = ",".join(OWN_NETWORKS)
    if service in CALLS_COORDINATOR:
        env["PERDURE_COORDINATOR_ADDRESS"] = ports.address("coordinator")
    if service in WITH_DATABASE:
        env["PERDURE_DATABASE_URL"] = backends.database_url(service)
        env["PERDURE_DATABASE_DIRECT_URL"] = backends.direct_url(service)
    if service in WITH_REDIS:
        env["PERDURE_REDIS_URL"] = backends.redis_url
    return env
