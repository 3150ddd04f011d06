"""A real coordinator on the test's database, for the services around it and for its own tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from perdure_coordinator import answers
from perdure_coordinator.app import build
from perdure_coordinator.config import CoordinatorConfig
from perdure_runtime.clock import SystemClock
from perdure_runtime.lifecycle import Service
from perdure_runtime.ops import OpsServer
from perdure_runtime.process import Process
from perdure_runtime.rpc.client import open_channel
from perdure_stack.ports import free_ports
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

TASK = "name: w\nnodes: {a: {task: {handler: h}}}"


@pytest.fixture
def process() -> Process:
    """What a service is told of the process that it runs in."""
    return Process(OpsServer("127.0.0.1", 0), SystemClock())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call be answered when all is done, however slow the machine."""
    monkeypatch.setattr(answers, "PATIENCE_SECONDS", 20.0)
    monkeypatch.setattr(answers, "OWN_PATIENCE_SECONDS", 20.0)


@pytest.fixture
async def serve(
    database: Database, process: Process, patient: None
) -> AsyncIterator[Callable[..., Awaitable[tuple[Service, str]]]]:
    """Starts coordinators as their role; returns each with its address."""
    started: list[Service] = []

    async def start(**settings: Any) -> tuple[Service, str]:
        (port,) = free_ports(1)
        usual: dict[str, Any] = {"database_url": database.url("coordinator"), "grpc_port": port}
        service = await build(CoordinatorConfig(**(usual | settings)), process)
        started.append(service)
        await service.start()
        return service, f"127.0.0.1:{port}"

    yield start
    for service in started:
        await service.stop()


@pytest.fixture
async def coordinator_address(serve: Callable[..., Awaitable[tuple[Service, str]]]) -> str:
    """The address of a running coordinator."""
    _, address = await serve()
    return address


@pytest.fixture
async def call_at() -> AsyncIterator[Callable[..., Calls]]:
    """Makes callers of a coordinator."""
    made: list[Calls] = []

    def make(address: str, **who: str) -> Calls:
        made.append(Calls(open_channel(address), **who))
        return made[-1]

    yield make
    for calls in made:
        await calls.channel.close()


@pytest.fixture
async def calls(coordinator_address: str, call_at: Callable[..., Calls]) -> Calls:
    """A caller of the coordinator, for the org `default`; the workflow `w` is published."""
    made = call_at(coordinator_address)
    await made.publish(TASK)
    return made
