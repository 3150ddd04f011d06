"""A whole Perdure to measure, with fsync on and 5 % tracing, and what every measure does with it.

How long runs took is read from the database after they have ended; until then it is asked four
times a second, by one cheap query, whether some are unfinished.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from uuid import UUID

import asyncpg
import perdure
from perdure_stack.services import SERVICES
from perdure_stack.stack import DevStack
from perdure_testkit.database import Database
from perdure_testkit.place import Place

from tests.bench.sink import running_sink

ROOT = Path(__file__).parents[2]
DATABASE = "perdure"
TRACE_RATIO = 0.05
SLOTS = 256
LOOK_EVERY = 0.25  # seconds
WITHIN = 900.0  # seconds
PATIENCE = 60.0  # seconds
LAST_FEW = 16
"""Runs that were started last and so end among the last."""

TRIES = 50
"""Of a call: services that were started anew are reached again after a pause."""

IN_FLIGHT = 64
"""Calls that a client has open at once."""

WORKER = {"PERDURE_WORKER_HANDLERS": "tests.bench.handlers", "PYTHONPATH": str(ROOT)}
INGEST = {"PERDURE_INGEST_KEY_RATE": "100000", "PERDURE_INGEST_KEY_BURST": "100000"}
"""One key starts all runs, faster than a caller usually may."""

_UNFINISHED = """
SELECT EXISTS (SELECT FROM runs WHERE run_id = ANY ($1::uuid[]) AND status = 'running')
"""
_NOT_COMPLETED = """
SELECT count(*) FROM runs WHERE run_id = ANY ($1::uuid[]) AND status <> 'completed'
"""
_TOOK = """
SELECT extract(epoch FROM max(ended_at) - $2)::float8 FROM runs WHERE run_id = ANY ($1::uuid[])
"""


class Unfinished(Exception):
    """Runs did not end in time, or did not end well: there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: briefly for a first look, in full, or long for what grows in time."""

    quick: bool = False
    long: bool = False

    def rounds(self) -> int:
        """How often a measure is taken."""
        return 3 if self.quick else 7


@dataclass(frozen=True, slots=True)
class Rig:
    """A stack that runs, a client of it, and a superuser's connection to its database."""

    stack: DevStack
    client: perdure.Client
    database: asyncpg.Connection
    endpoint: str

    @property
    def place(self) -> Place:
        """The stack as the testkit's helpers take it."""
        url = self.stack.backends.database_url
        redis_url = self.stack.backends.redis_url
        return Place(Database(url, DATABASE), redis_url, self.stack.directory)

    async def now(self) -> object:
        """The database's clock."""
        return await self.database.fetchval("SELECT clock_timestamp()")

    async def wait_ended(self, runs: Sequence[UUID], every: float = LOOK_EVERY) -> None:
        """Wait until all of these runs have completed. Raises Unfinished if one did not."""
        give_up = time.monotonic() + WITHIN
        # The last few are asked about until they have ended: to ask about all costs what it is
        # the services' turn to use.
        for asked in (runs[-LAST_FEW:], runs):
            await self._wait_ended(asked, every, give_up)
        if broken := await self.database.fetchval(_NOT_COMPLETED, runs):
            raise Unfinished(f"{broken} of {len(runs)} runs did not complete")

    async def _wait_ended(self, runs: Sequence[UUID], every: float, give_up: float) -> None:
        while await self.database.fetchval(_UNFINISHED, runs):
            if time.monotonic() > give_up:
                raise Unfinished(f"runs still run after {WITHIN:g} s; logs: {self.stack.directory}")
            await asyncio.sleep(every)

    async def seconds_of(self, start: Callable[[], Awaitable[Sequence[UUID]]]) -> float:
        """Return the seconds from just before a start of runs to the end of the last of them."""
        began = await self.now()
        runs = await start()
        await self.wait_ended(runs)
        return float(await self.database.fetchval(_TOOK, runs, began))

    async def start_many(
        self, workflow: str, count: int, given: object = None, *, in_flight: int = IN_FLIGHT
    ) -> list[UUID]:
        """Start so many runs, one a call, and return their ids."""
        gate = asyncio.Semaphore(in_flight)

        async def start() -> UUID:
            async with gate:
                return UUID((await self.client.start_run(workflow, given)).run_id)

        return list(await asyncio.gather(*(start() for _ in range(count))))

    async def stop_services(self) -> None:
        """Stop all services; the servers stay."""
        await self.stack.supervisor.stop_all()

    async def start_services(self, env: Mapping[str, str] = MappingProxyType({})) -> None:
        """Start all services, with these variables besides."""
        supervisor = self.stack.supervisor
        await asyncio.gather(*(supervisor.start(name, env) for name in supervisor.names))


@asynccontextmanager
async def open_rig(slots: int = SLOTS, *, preload: str = "") -> AsyncIterator[Rig]:
    """Lend a new stack on embedded servers, whose data is removed at the end.

    `preload` names a library of PostgreSQL that counts; times of syncs are then taken too.
    """
    with TemporaryDirectory() as directory:
        async with running_sink() as endpoint:
            stack = DevStack(
                Path(directory),
                free_ports=True,
                service_env=_environment(endpoint, slots),
                restart=False,
            )
            try:
                if preload:
                    await _preload(stack, preload)
                await stack.start()
                async with _connected(stack, endpoint) as rig:
                    yield rig
            finally:
                await stack.destroy()


async def _preload(stack: DevStack, library: str) -> None:
    """Have the server of a stack that has not begun load a library whenever it starts."""
    await stack.backends.start()
    database = await asyncpg.connect(stack.backends.database_url)
    try:
        await database.execute(f"ALTER SYSTEM SET shared_preload_libraries = '{library}'")
        await database.execute("ALTER SYSTEM SET track_wal_io_timing = on")
    finally:
        await database.close()
        await stack.backends.stop()


@asynccontextmanager
async def _connected(stack: DevStack, endpoint: str) -> AsyncIterator[Rig]:
    address = stack.ports.address("ingest")
    database = await asyncpg.connect(stack.backends.database_url)
    try:
        key = stack.api_key
        async with perdure.Client(address, api_key=key, timeout=PATIENCE, attempts=TRIES) as client:
            yield Rig(stack, client, database, endpoint)
    finally:
        await database.close()


def tracing(endpoint: str, share: float) -> Mapping[str, str]:
    """Return the variables by which a service traces a share of runs; none of them by no SDK."""
    if share == 0:
        return {"PERDURE_OTLP_ENDPOINT": ""}
    return {"PERDURE_OTLP_ENDPOINT": endpoint, "PERDURE_TRACE_RATIO": str(share)}


def _environment(endpoint: str, slots: int) -> Mapping[str, Mapping[str, str]]:
    own = {"worker": {**WORKER, "PERDURE_WORKER_SLOTS": str(slots)}, "ingest": INGEST}
    told = tracing(endpoint, TRACE_RATIO)
    return {service: {**told, **own.get(service, {})} for service in SERVICES}
