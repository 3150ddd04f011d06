"""The six services as real processes for tests, quick to notice what stopped.

Servers are given; the engine starts the services on them with leases of a second, a sweeper that
looks ten times a second, and the testkit's handlers. It stays up over many tests: a test starts
again only what it killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

import perdure
from perdure_runtime.api_keys import make_key
from perdure_stack.services import (
    SERVICES,
    Backends,
    choose_free_ports,
    service_specs,
)
from perdure_stack.supervisor import Supervisor

from perdure_testkit import step_handlers
from perdure_testkit.api_keys import give_key
from perdure_testkit.nursery import Nursery
from perdure_testkit.place import Place
from perdure_testkit.servers import make_directory
from perdure_testkit.session import session_directory

CLIENT_ATTEMPTS = 30
CLIENT_TIMEOUT = 60.0  # seconds
DRAIN_SECONDS = "1"

FAST: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "relay": {"PERDURE_RELAY_RECHECK_SECONDS": "0.1"},
        "worker": {
            "PERDURE_WORKER_HANDLERS": step_handlers.MODULE,
            "PERDURE_WORKER_LEASE_MARGIN": "0.1",
            "PERDURE_WORKER_RECLAIM_IDLE": "10",
        },
        "sweeper": {
            "PERDURE_SWEEPER_INTERVAL": "0.1",
            "PERDURE_SWEEPER_AUDIT_INTERVAL": "1",
            "PERDURE_SWEEPER_UPKEEP_INTERVAL": "1",
        },
    }
)
"""What each service is told beside its addresses."""

# Short leases, so that what a dead worker held comes back soon; only the lane `slow` calls a step
# poisoned at once, since on a busy machine innocents lose such leases too.
_FAST_LANES = """
UPDATE lanes
   SET hand_out_ms = 1000, lease_ms = 1500, poison_limit = CASE lane WHEN 'slow' THEN 2 ELSE 50 END
"""


@dataclass(frozen=True, slots=True)
class Crew:
    """Which processes run, such as `worker-2`, and what services or processes are told besides.

    With `restart` one that dies is started again by its supervisor.
    """

    names: Collection[str] = SERVICES
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    restart: bool = True


class Engine:
    """An async context manager that starts the crew and stops it; use it from one event loop.

    Several may work in one place, each with a coordinator of its own that its processes call.
    """

    def __init__(self, place: Place, crew: Crew | None = None) -> None:
        self.place = place
        crew = crew or Crew()
        self.ports = choose_free_ports(tuple(crew.names))
        backends = Backends(place.database.url, place.database.url, place.redis_url)
        base_env = _base_environment()
        modules = [f"perdure_{service}" for service in SERVICES]
        self._nursery = Nursery(make_directory("nursery-", session_directory()), modules, base_env)
        self.supervisor = Supervisor(
            service_specs(self.ports, backends, _environment(crew)),
            logs=place.directory / "logs",
            base_env=base_env,
            restart=crew.restart,
            open_child=self._nursery.open_child,
        )
        self._key = make_key()
        self.client = perdure.Client(
            self.ports.address("ingest"),
            api_key=self._key.text,
            timeout=CLIENT_TIMEOUT,
            attempts=CLIENT_ATTEMPTS,
        )

    @property
    def api_key(self) -> str:
        """The key of an admin of the org `default`."""
        return self._key.text

    async def __aenter__(self) -> Self:
        await self.place.execute(_FAST_LANES)
        async with self.place.connection() as connection:
            await give_key(connection, self._key)
        await self._nursery.start()
        await self.supervisor.start_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.supervisor.stop_all()
        await self._nursery.stop()

    def send_signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process. LookupError if it does not run."""
        pid = self.supervisor.pid(name)
        if pid is None:
            raise LookupError(f"{name} does not run")
        os.kill(pid, number)


def _environment(crew: Crew) -> dict[str, Mapping[str, str]]:
    told = FAST.keys() | crew.env.keys()
    return {name: {**FAST.get(name, {}), **crew.env.get(name, {})} for name in told}


def _base_environment() -> dict[str, str]:
    """What every process inherits: nothing that would set up the engine of another."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, "PERDURE_DRAIN_SECONDS": DRAIN_SECONDS}
