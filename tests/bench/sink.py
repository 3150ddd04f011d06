"""An OTLP endpoint that takes every span and looks at none, so that it costs little itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


async def _take(_request: bytes, _context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    return b""


@asynccontextmanager
async def running_sink() -> AsyncIterator[str]:
    """Lend the endpoint of a sink, as PERDURE_OTLP_ENDPOINT takes it."""
    server = grpc.aio.server()
    export: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(_take)
    handler = grpc.method_handlers_generic_handler(_SERVICE, {"Export": export})
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop(0)
