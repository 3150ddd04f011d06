"""A real HTTP door whose calls are answered by what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import message_factory
from google.protobuf.message import Message
from perdure_contracts.v1 import run_service_pb2, workflow_service_pb2
from perdure_ingest.http.server import HttpServer, HttpSettings
from perdure_runtime.rpc.deadline import remaining

SERVICES = (
    run_service_pb2.DESCRIPTOR.services_by_name["RunService"],
    workflow_service_pb2.DESCRIPTOR.services_by_name["WorkflowService"],
)


@dataclass
class Handlers:
    """Keeps what it is asked; answers with `answer`, by default an empty message, or `stream`."""

    requests: list[Any] = field(default_factory=list)
    remaining: list[float | None] = field(default_factory=list)
    answer: Callable[[Any], Awaitable[Message]] | None = None
    stream: Callable[[Any], AsyncIterator[Message]] | None = None

    def register(self, server: grpc.aio.Server) -> None:
        """Add every method of the services."""
        for service in SERVICES:
            handlers = {method.name: self._handler(method) for method in service.methods}
            server.add_registered_method_handlers(service.full_name, handlers)

    def _handler(self, method: Any) -> Any:
        empty = message_factory.GetMessageClass(method.output_type)

        async def single(request: Any, context: Any) -> Message:
            self._asked(request)
            return await self.answer(request) if self.answer else empty()

        async def stream(request: Any, context: Any) -> AsyncIterator[Message]:
            self._asked(request)
            if self.stream is not None:
                async for message in self.stream(request):
                    yield message

        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(single)

    def _asked(self, request: Any) -> None:
        self.requests.append(request)
        self.remaining.append(remaining())


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def settings() -> dict[str, Any]:
    """What a test sets otherwise, by parametrising this."""
    return {}


@pytest.fixture
async def door(handlers: Handlers, settings: dict[str, Any]) -> AsyncIterator[HttpServer]:
    usual: dict[str, Any] = {"grace": 0.2}
    server = HttpServer(
        {"all": handlers.register}, HttpSettings("127.0.0.1", 0, **(usual | settings))
    )
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def web(door: HttpServer) -> AsyncIterator[httpx.AsyncClient]:
    base = f"http://127.0.0.1:{door.port}"
    async with httpx.AsyncClient(base_url=base, timeout=20.0, verify=False) as client:
        yield client


@pytest.fixture
def problems() -> Callable[[httpx.Response], dict[str, str]]:
    """What is wrong, by field, as an answer tells it."""

    def found(answer: httpx.Response) -> dict[str, str]:
        assert answer.headers["Content-Type"] == "application/json"
        details = [d for d in answer.json()["details"] if d["@type"].endswith(".BadRequest")]
        violations = [v for each in details for v in each["field_violations"]]
        return {v["field"]: v["description"] for v in violations}

    return found


@pytest.fixture
def reason() -> Callable[[httpx.Response], str]:
    """What happened, as an answer tells it."""

    def found(answer: httpx.Response) -> str:
        details = answer.json()["details"]
        return str(next(d["reason"] for d in details if d["@type"].endswith(".ErrorInfo")))

    return found


@pytest.fixture
async def raw(
    door: HttpServer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which a test says what it likes, and as slowly."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    yield reader, writer
    writer.close()
