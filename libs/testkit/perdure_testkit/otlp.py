"""An OTLP collector for tests: a real gRPC server that keeps the spans it is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

SERVICE_NAME = "service.name"


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span, and the service that sent it, such as `perdure-relay`."""

    service: str
    span: Span

    @property
    def name(self) -> str:
        """The span's name."""
        return self.span.name

    @property
    def trace(self) -> str:
        """The trace's id in hex, as a traceparent has it."""
        return self.span.trace_id.hex()

    @property
    def attributes(self) -> dict[str, Any]:
        """The span's attributes as plain values."""
        return {pair.key: _plain(pair.value) for pair in self.span.attributes}


@dataclass(slots=True)
class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """What has arrived so far, in order; `endpoint` is what PERDURE_OTLP_ENDPOINT names."""

    endpoint: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)

    async def Export(self, request: Any, context: Any) -> Any:
        """Keep what is sent."""
        for resource in request.resource_spans:
            service = _service_of(resource)
            for scope in resource.scope_spans:
                self.spans += [ReceivedSpan(service, span) for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def of_trace(self, trace: str) -> list[ReceivedSpan]:
        """Return the spans of one trace."""
        return [span for span in self.spans if span.trace == trace]


@asynccontextmanager
async def running_collector() -> AsyncIterator[Collector]:
    """Lend a collector that listens on a free port of loopback."""
    collector, server = Collector(), grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(  # type: ignore[no-untyped-call]
        collector, server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    collector.endpoint = f"http://127.0.0.1:{port}"
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(0)


def _service_of(resource: ResourceSpans) -> str:
    names = [
        pair.value.string_value for pair in resource.resource.attributes if pair.key == SERVICE_NAME
    ]
    return names[0] if names else ""


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
