"""A server that repeats bytes, and a client of it: for tests of the RPC chassis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import grpc
from perdure_runtime.backoff import Backoff
from perdure_runtime.fail_points import Registry
from perdure_runtime.rpc.client import RpcClient, open_channel
from perdure_runtime.rpc.server import RpcServer, ServerSettings

SERVICE = "perdure.test.v1.EchoService"
Unary = Callable[[bytes, Any], Awaitable[bytes]]
Stream = Callable[[bytes, Any], AsyncIterator[bytes]]
Method: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
FAST = Backoff(base=0.001, factor=1.0, cap=0.001)


@dataclass
class Echo:
    """Serves bytes by method name and calls them through one client."""

    path: Path
    stack: AsyncExitStack
    points: Registry = field(default_factory=Registry)

    @property
    def address(self) -> str:
        """Where it is served."""
        return f"unix:{self.path}"

    def server(
        self,
        unary: Mapping[str, Unary] | None = None,
        streams: Mapping[str, Stream] | None = None,
        **settings: Any,
    ) -> RpcServer:
        """Return a server that is not started."""
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(cast(Any, call))
            for name, call in (unary or {}).items()
        } | {
            name: grpc.unary_stream_rpc_method_handler(cast(Any, call))
            for name, call in (streams or {}).items()
        }
        generic = grpc.method_handlers_generic_handler(SERVICE, handlers)
        proof = {name: settings.pop(name) for name in ("certificates", "peers") if name in settings}
        return RpcServer(
            {SERVICE: lambda server: server.add_generic_rpc_handlers((generic,))},
            replace(ServerSettings(self.address, grace=2.0), **settings),
            **proof,
        )

    async def serve(self, unary: Mapping[str, Unary] | None = None, **more: Any) -> RpcServer:
        """Start a server that stops with the test."""
        server = self.server(unary, **more)
        await server.start()
        self.stack.push_async_callback(server.stop)
        return server

    def client(self, address: str = "", **proof: Any) -> RpcClient:
        """Return a client that does not wait between its tries."""
        channel = open_channel(address or self.address, **proof)
        client = RpcClient(channel, retry=FAST, jitter=lambda: 0.0)
        self.stack.push_async_callback(client.stop)
        return client

    def method(self, client: RpcClient, name: str) -> Method:
        """Return a method that takes bytes."""
        return client.channel.unary_unary(f"/{SERVICE}/{name}")

    async def call(self, name: str, request: bytes = b"", *, timeout: float = 5.0) -> bytes:
        """Call a method through a client of its own, within `timeout` seconds."""
        client, point = self.client(), f"test.send_{len(self.points.declared())}"
        method = self.method(client, name)
        return await client.call(
            method, request, timeout=timeout, fail_point=self.points.declare(point)
        )


async def repeat(request: bytes, _: Any) -> bytes:
    """Answer with what was sent."""
    return request
