"""A whole Perdure on this machine: PostgreSQL, Valkey, migrations and the six services."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from perdure_stack.backends import StackBackends
from perdure_stack.errors import StackError
from perdure_stack.process import ChildProcess
from perdure_stack.readiness import run_to_success
from perdure_stack.record import ServiceRecord, StackLock, StackRecord, remove_record
from perdure_stack.services import (
    ServicePorts,
    choose_default_ports,
    choose_free_ports,
    module_command,
    process_names,
    service_specs,
)
from perdure_stack.supervisor import Supervisor

DEFAULT_DIRECTORY = Path(".perdure")
KEY_FILE = "api_key"
"""In a stack's directory: what clients of it present; the SDK looks for it beside the record."""

MIGRATE_TIMEOUT = 120.0  # seconds
DRAIN_SECONDS = "5"  # a person at a keyboard waits for no longer drain

# What a stack decides for its services; an inherited value would send one of them elsewhere.
_DECIDED_HERE = (
    "HOST",
    "OPS_PORT",
    "GRPC_PORT",
    "COORDINATOR_ADDRESS",
    "DATABASE_URL",
    "DATABASE_DIRECT_URL",
    "REDIS_URL",
)


class DevStack:
    """The stack of one directory; an async context manager that starts and stops it.

    ``free_ports`` takes any free ports in place of the documented ones. ``workers`` is how many
    worker processes run. ``service_env`` adds variables by service (``worker``: every worker) or
    by process name (``worker-2``). ``restart`` starts services again that die. ``environ`` may
    name servers of one's own by PERDURE_DATABASE_URL and PERDURE_REDIS_URL.
    """

    def __init__(
        self,
        directory: Path = DEFAULT_DIRECTORY,
        *,
        free_ports: bool = False,
        workers: int = 1,
        durable: bool = True,
        restart: bool = True,
        service_env: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.directory = directory.absolute()
        self.backends = StackBackends(self.directory, environ, durable=durable)
        self._free_ports = free_ports
        self._workers = workers
        self._restart = restart
        self._service_env = service_env
        self._environ = environ
        self._lock = StackLock(self.directory)
        self._ports: ServicePorts | None = None
        self._supervisor: Supervisor | None = None

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor of the services. Raises StackError before the start."""
        if self._supervisor is None:
            raise _not_started(self.directory)
        return self._supervisor

    @property
    def ports(self) -> ServicePorts:
        """The services' ports. Raises StackError before the start."""
        if self._ports is None:
            raise _not_started(self.directory)
        return self._ports

    @property
    def api_key(self) -> str:
        """The key of an admin of the org `default`. Raises StackError before the start."""
        if not self._key_file.is_file():
            raise _not_started(self.directory)
        return self._key_file.read_text(encoding="utf-8").strip()

    @property
    def record(self) -> StackRecord:
        """Where everything is now. Raises StackError before the start."""
        ports, supervisor = self.ports, self.supervisor
        services = {
            name: ServiceRecord(
                supervisor.pid(name), ports.ops_url(name), str(supervisor.log(name))
            )
            for name in supervisor.names
        }
        return StackRecord(
            pid=os.getpid(),
            ingest_address=ports.address("ingest"),
            http_url=ports.http_url,
            worker_address=ports.door(),
            coordinator_address=ports.address("coordinator"),
            database_url=self.backends.database_url,
            redis_url=self.backends.redis_url,
            services=services,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything and return once every service is ready.

        Raises StackError, with nothing left running, when a part cannot start.
        """
        self._lock.acquire()
        try:
            self._ports = self._choose_ports()
            await self.backends.start()
            await self._migrate()
            await self._make_key()
            await self._start_services(self._ports)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the services in order, then the servers."""
        if self._supervisor is not None:
            await self._supervisor.stop_all()
            self._supervisor = None
        await self.backends.stop()
        remove_record(self.directory)
        self._lock.release()

    async def destroy(self) -> None:
        """Stop everything and remove the embedded servers' data; logs stay."""
        await self.stop()
        await self.backends.destroy()

    def _choose_ports(self) -> ServicePorts:
        choose = choose_free_ports if self._free_ports else choose_default_ports
        return choose(process_names(self._workers))

    async def _migrate(self) -> None:
        command = module_command("perdure_store", "migrate")
        child = ChildProcess(
            (*command, "--database-url", self._database_url),
            log=self._logs / "migrate.log",
            environment=self._base_env(),
        )
        await run_to_success("the migration", child, MIGRATE_TIMEOUT)

    async def _make_key(self) -> None:
        """Have a key in the stack's file that is good in its database."""
        command = module_command("perdure_store", "keys", "bootstrap", "--another")
        child = ChildProcess(
            (*command, "--output", str(self._key_file), "--database-url", self._database_url),
            log=self._logs / "keys.log",
            environment=self._base_env(),
        )
        await run_to_success("the making of a key", child, MIGRATE_TIMEOUT)

    async def _start_services(self, ports: ServicePorts) -> None:
        self._supervisor = Supervisor(
            service_specs(ports, self.backends.for_services(), self._service_env),
            logs=self._logs,
            base_env=self._base_env(),
            restart=self._restart,
            on_start=self._write_record,
        )
        await self._supervisor.start_all()
        self._write_record()

    def _write_record(self) -> None:
        self.record.write(self.directory)

    def _base_env(self) -> dict[str, str]:
        """What every process inherits; services refuse settings that are not theirs."""
        kept = {name: value for name, value in self._environ.items() if not _decided_here(name)}
        return {"PERDURE_DRAIN_SECONDS": DRAIN_SECONDS, **kept}

    @property
    def _database_url(self) -> str:
        return self.backends.database_url

    @property
    def _key_file(self) -> Path:
        return self.directory / KEY_FILE

    @property
    def _logs(self) -> Path:
        return self.directory / "logs"


def _decided_here(variable: str) -> bool:
    return variable.startswith("PERDURE_") and variable.endswith(_DECIDED_HERE)


def _not_started(directory: Path) -> StackError:
    return StackError("the stack has not been started", str(directory), "start it before asking")
