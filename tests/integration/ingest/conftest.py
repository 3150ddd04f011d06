"""A real ingest on a real database, with a coordinator that the test scripts."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import grpc
import pytest
from perdure import Client
from perdure_contracts.internal.v1 import (
    control_service_pb2,
    coordinator_service_pb2,
    effects_pb2,
)
from perdure_ingest.app import Ingest
from perdure_ingest.config import IngestConfig
from perdure_runtime.rpc.server import RpcServer, ServerSettings
from perdure_stack.ports import free_ports
from perdure_store.pool import open_pool
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database

COORDINATOR = "perdure.internal.v1.CoordinatorService"
CONTROL = "perdure.internal.v1.ControlService"

StartItem = coordinator_service_pb2.StartRunItem
StartResult = coordinator_service_pb2.StartRunResult
CancelItem = coordinator_service_pb2.CancelRunItem
CancelResult = coordinator_service_pb2.CancelRunResult
CommandItem = coordinator_service_pb2.CommandRunItem
CommandResult = coordinator_service_pb2.CommandRunResult
SignalItem = coordinator_service_pb2.SignalItem
SignalResult = coordinator_service_pb2.SignalResult
PublishRequest = control_service_pb2.PublishWorkflowRequest
PublishResponse = control_service_pb2.PublishWorkflowResponse


async def _start(item: StartItem) -> StartResult:
    return StartResult(run_id=str(uuid.uuid4()), workflow_version=1, created=True)


async def _cancel(item: CancelItem) -> CancelResult:
    return CancelResult(changed=True)


async def _command(item: CommandItem) -> CommandResult:
    return CommandResult(changed=True)


async def _signal(item: SignalItem) -> SignalResult:
    return SignalResult(is_new=True, run_id=item.run_id)


async def _decide(item: effects_pb2.DecideEffectItem) -> effects_pb2.DecideEffectResult:
    return effects_pb2.DecideEffectResult(changed=True)


async def _publish(request: PublishRequest) -> PublishResponse:
    return PublishResponse(name="w", version=1, created=True, digest=bytes(32))


@dataclass
class ScriptedCoordinator:
    """Answers by what the test sets, and keeps what it was asked; `batches` are whole calls."""

    start: Callable[[StartItem], Awaitable[StartResult]] = _start
    cancel: Callable[[CancelItem], Awaitable[CancelResult]] = _cancel
    command: Callable[[CommandItem], Awaitable[CommandResult]] = _command
    signal: Callable[[SignalItem], Awaitable[SignalResult]] = _signal
    decide: Callable[[effects_pb2.DecideEffectItem], Awaitable[effects_pb2.DecideEffectResult]] = (
        _decide
    )
    publish: Callable[[PublishRequest], Awaitable[PublishResponse]] = _publish
    batches: list[list[Any]] = field(default_factory=list)
    port: int = 0

    @property
    def items(self) -> list[Any]:
        """Every item of every call."""
        return [item for batch in self.batches for item in batch]

    async def start_run(
        self, request: coordinator_service_pb2.StartRunRequest, context: Any
    ) -> coordinator_service_pb2.StartRunResponse:
        self.batches.append(list(request.items))
        results = [await self.start(item) for item in request.items]
        return coordinator_service_pb2.StartRunResponse(results=results)

    async def cancel_run(
        self, request: coordinator_service_pb2.CancelRunRequest, context: Any
    ) -> coordinator_service_pb2.CancelRunResponse:
        self.batches.append(list(request.items))
        results = [await self.cancel(item) for item in request.items]
        return coordinator_service_pb2.CancelRunResponse(results=results)

    async def command_run(
        self, request: coordinator_service_pb2.CommandRunRequest, context: Any
    ) -> coordinator_service_pb2.CommandRunResponse:
        self.batches.append(list(request.items))
        results = [await self.command(item) for item in request.items]
        return coordinator_service_pb2.CommandRunResponse(results=results)

    async def send_signals(
        self, request: coordinator_service_pb2.SignalRequest, context: Any
    ) -> coordinator_service_pb2.SignalResponse:
        self.batches.append(list(request.items))
        results = [await self.signal(item) for item in request.items]
        return coordinator_service_pb2.SignalResponse(results=results)

    async def decide_effects(
        self, request: effects_pb2.DecideEffectRequest, context: Any
    ) -> effects_pb2.DecideEffectResponse:
        self.batches.append(list(request.items))
        results = [await self.decide(item) for item in request.items]
        return effects_pb2.DecideEffectResponse(results=results)

    async def publish_workflow(self, request: PublishRequest, context: Any) -> PublishResponse:
        self.batches.append([request])
        return await self.publish(request)

    def register(self, server: grpc.aio.Server) -> None:
        """Serve what ingest calls."""
        runs = {
            "StartRun": _handler(self.start_run, coordinator_service_pb2.StartRunRequest),
            "CancelRun": _handler(self.cancel_run, coordinator_service_pb2.CancelRunRequest),
            "CommandRun": _handler(self.command_run, coordinator_service_pb2.CommandRunRequest),
            "DecideEffect": _handler(self.decide_effects, effects_pb2.DecideEffectRequest),
            "Signal": _handler(self.send_signals, coordinator_service_pb2.SignalRequest),
        }
        control = {"PublishWorkflow": _handler(self.publish_workflow, PublishRequest)}
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(COORDINATOR, runs),
                grpc.method_handlers_generic_handler(CONTROL, control),
            )
        )


def _handler(method: Any, request: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        method,
        request_deserializer=request.FromString,
        response_serializer=lambda response: response.SerializeToString(),
    )


_made = itertools.count()


def _next_id() -> uuid.UUID:
    """Return an id that is in order after the one before, also within a millisecond."""
    return uuid.UUID(int=uuid.uuid4().int & ~(0xFFF << 64) | (next(_made) & 0xFFF) << 64)


class Rows:
    """Rows as the coordinator writes them, by the superuser."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def workflow(self, name: str = "w", version: int = 1, *, org: str = "default") -> None:
        """A published version."""
        await self.connection.execute(
            "INSERT INTO workflows (org, name, version, digest, document) "
            "VALUES ($1, $2, $3, sha256($4), $4)",
            org,
            name,
            version,
            f"name: {name} # {version}".encode(),
        )

    async def run(
        self,
        *,
        org: str = "default",
        workflow: str = "w",
        status: str = "completed",
        run_input: bytes = b"{}",
        output: bytes | None = None,
        error: bytes | None = None,
        start_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        created_at: datetime | None = None,
        parent: tuple[uuid.UUID, int] | None = None,
    ) -> uuid.UUID:
        """A run, by default an ended one; its id carries the instant of its creation."""
        run_id: uuid.UUID = await self.connection.fetchval(
            """
            INSERT INTO runs (run_id, org, workflow_id, workflow, workflow_version, status, input,
                              output, error, start_key, tags, created_at, ended_at,
                              parent_run, parent_step)
            SELECT (left(uuid7_floor(made.at)::text, 14) || right($1::uuid::text, 22))::uuid,
                   $2, 1, $3, 1, $4::text::run_status, $5, $6, $7, $8, $9, made.at,
                   CASE WHEN $4 <> 'running' THEN made.at END, $11, $12
              FROM (SELECT coalesce($10::timestamptz, clock_timestamp()) AS at) AS made
            RETURNING run_id
            """,
            _next_id(),
            org,
            workflow,
            status,
            run_input,
            output,
            error,
            start_key,
            json.dumps(dict(tags or {})).encode(),
            created_at,
            *(parent or (None, None)),
        )
        for key, value in (tags or {}).items():
            await self.connection.execute(
                "INSERT INTO run_tags (run_id, org, key, value) VALUES ($1, $2, $3, $4)",
                run_id,
                org,
                key,
                value,
            )
        return run_id

    async def step(
        self, run_id: uuid.UUID, step: int = 1, *, status: str = "completed", **columns: Any
    ) -> None:
        """A step; `columns` override or add to what it needs."""
        row = {
            "run_id": run_id,
            "step": step,
            "org": "default",
            "node": f"n{step}",
            "kind": "task",
            "lane": "io",
            "owner": "shared",
            "created_at": await self.now(),
            **columns,
        }
        if status in ("completed", "failed", "skipped", "cancelled"):
            row.setdefault("ended_at", await self.now())
        names = ", ".join(row)
        places = ", ".join(f"${place}" for place in range(2, len(row) + 2))
        await self.connection.execute(
            f"INSERT INTO steps (status, {names}) VALUES ($1::text::step_status, {places})",
            status,
            *row.values(),
        )

    async def waiting_run(self, *, due_in: timedelta = timedelta(hours=1)) -> uuid.UUID:
        """A running run whose one step waits on a timer."""
        run_id = await self.run(status="running")
        await self.step(run_id, status="waiting", kind="wait", node="pause", lane=None, owner=None)
        await self.timer(run_id, due_in=due_in)
        return run_id

    async def child(self, parent: uuid.UUID, step: int, run_id: uuid.UUID) -> None:
        """What a parent keeps of a child."""
        await self.connection.execute(
            "INSERT INTO children VALUES ($1, $2, 'default', 'w', 1, 'cancel', 'running', $3)",
            parent,
            step,
            run_id,
        )

    async def publishing_run(self) -> uuid.UUID:
        """A waiting run of a workflow whose node `n2` publishes as `receipt`."""
        await self.workflow()
        await self.connection.execute(
            "INSERT INTO workflow_nodes (workflow_id, node, steps, outputs, input, publish) "
            "SELECT workflow_id, 'n2', '{}', '{}', false, 'receipt' FROM workflows"
        )
        return await self.waiting_run()

    async def effect(
        self, run_id: uuid.UUID, key: str = "k", *, step: int = 1, status: str, **columns: Any
    ) -> None:
        """An effect; `columns` override or add to what it needs."""
        row = {
            "run_id": run_id,
            "key": key,
            "org": "default",
            "step": step,
            "kind": "provider",
            "fence": 1,
            "calls": 1,
            "begun_at": await self.now(),
            "settled_at": await self.now() if status == "settled" else None,
            **columns,
        }
        names = ", ".join(row)
        places = ", ".join(f"${place}" for place in range(2, len(row) + 2))
        await self.connection.execute(
            f"INSERT INTO effects (status, {names}) VALUES ($1::text::effect_status, {places})",
            status,
            *row.values(),
        )

    async def timer(self, run_id: uuid.UUID, *, due_in: timedelta) -> None:
        """The timer of step 1."""
        await self.connection.execute(
            "INSERT INTO timers (org, run_id, step, kind, due_at, next_try) "
            "VALUES ('default', $1, 1, 'wait', clock_timestamp() + $2, clock_timestamp() + $2)",
            run_id,
            due_in,
        )

    async def history(self, run_id: uuid.UUID, count: int) -> None:
        """So many lines, all of step 1."""
        await self.connection.execute(
            "INSERT INTO history (run_id, seq, at, kind, step) "
            "SELECT $1, seq, clock_timestamp(), 'step_queued', 1 FROM generate_series(1, $2) seq",
            run_id,
            count,
        )

    async def change(self, run_id: uuid.UUID, *, end: bool = False) -> None:
        """Raise the run's revision as every event does; with `end` the run completes."""
        await self.connection.execute(
            """
            UPDATE runs
               SET revision = revision + 1,
                   status = CASE WHEN $2 THEN 'completed' ELSE status END,
                   ended_at = CASE WHEN $2 THEN clock_timestamp() END
             WHERE run_id = $1
            """,
            run_id,
            end,
        )

    async def finish(self, run_id: uuid.UUID) -> None:
        """End the step and the run, as one event."""
        await self.connection.execute(
            "UPDATE steps SET status = 'completed', ended_at = clock_timestamp(), "
            "lease_expires_at = NULL WHERE run_id = $1",
            run_id,
        )
        await self.connection.execute("DELETE FROM timers WHERE run_id = $1", run_id)
        await self.change(run_id, end=True)

    async def now(self) -> datetime:
        """The database's clock."""
        instant: datetime = await self.connection.fetchval("SELECT clock_timestamp()")
        return instant


@pytest.fixture
async def rows(database: Database) -> Rows:
    return Rows(await database.connect())


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator()
    server = RpcServer({COORDINATOR: scripted.register}, ServerSettings("127.0.0.1:0", grace=0.1))
    await server.start()
    scripted.port = server.port
    yield scripted
    await server.stop()


@pytest.fixture
def config_changes() -> dict[str, Any]:
    """What a test sets otherwise, by parametrising this."""
    return {}


@pytest.fixture
def config(
    database: Database, coordinator: ScriptedCoordinator, config_changes: dict[str, Any]
) -> IngestConfig:
    # A port that is known beforehand, so that a test may stop the server and start it again.
    (port,) = free_ports(1)
    usual: dict[str, Any] = {
        "database_url": database.url("ingest"),
        "coordinator_address": f"127.0.0.1:{coordinator.port}",
        "grpc_port": port,
        "http_port": 0,
        "ops_port": 0,
    }
    return IngestConfig(**(usual | config_changes))


@pytest.fixture
async def ingest(config: IngestConfig) -> AsyncIterator[Ingest]:
    pool = await open_pool(config.database_url, size=5, application_name="perdure-ingest")
    process = Ingest(config, pool)
    await process.start()
    yield process
    await process.stop()


@pytest.fixture
async def api_key(database: Database) -> str:
    """The key of an admin of the org `default`."""
    return await give_key(await database.connect())


@pytest.fixture
def address(ingest: Ingest) -> str:
    return f"127.0.0.1:{ingest.server.port}"


@pytest.fixture
def http_url(ingest: Ingest) -> str:
    return f"http://127.0.0.1:{ingest.http.port}"


@pytest.fixture
async def client(address: str, api_key: str) -> AsyncIterator[Client]:
    async with Client(address, api_key=api_key, timeout=20.0) as connected:
        yield connected
