"""A grpc.aio server with health, reflection, limits and the one interceptor.

Shutting down goes: health NOT_SERVING and new calls refused as DRAINING (`drain`), then what is in
flight finishes within `grace` seconds (`stop`), then the rest is cancelled. Long polls and streams
watch `draining` and end themselves; the health streams of clients are not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import grpc
from grpc_health.v1 import (  # type: ignore[import-untyped]
    health,
    health_pb2,
    health_pb2_grpc,
)
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from perdure_runtime.certificates import Certificates
from perdure_runtime.config_groups import GrpcConfig
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_runtime.lifecycle import Component
from perdure_runtime.rpc.interceptor import CallInterceptor, CallRules, Guard, let_all_in
from perdure_runtime.rpc.options import SERVER_OPTIONS
from perdure_runtime.rpc.tls import only_peers, server_credentials
from perdure_runtime.tracing import server_interceptors

Register = Callable[[grpc.aio.Server], None]
"""Adds a servicer: `lambda server: add_XServiceServicer_to_server(servicer, server)`."""

SPARE_RPCS = 5000
"""Beyond the limit of calls: those that get a refusal with its reason, and the health watches, of
which each client keeps one open; of more the transport refuses the rest without a word."""

FLUSH_SECONDS = 0.2
"""After the last call was served: time for its answer to leave."""

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`address` is `host:port`, port 0 for a free one, or `unix:/path`; `grace` is seconds.

    `untraced` are full method names of which no spans are made: long polls and batched calls,
    which carry trace context per item.
    """

    address: str
    reflection: bool = True
    max_concurrent_rpcs: int = 2000
    grace: float = 10.0
    rules: CallRules = field(default_factory=CallRules)
    untraced: frozenset[str] = frozenset()

    @classmethod
    def from_config(
        cls,
        config: GrpcConfig,
        host: str,
        *,
        rules: CallRules | None = None,
        untraced: Collection[str] = (),
    ) -> ServerSettings:
        """Take what operators can set from the service's config."""
        return cls(
            address=f"{host}:{config.grpc_port}",
            reflection=config.grpc_reflection,
            max_concurrent_rpcs=config.grpc_max_concurrent_rpcs,
            rules=rules or CallRules(),
            untraced=frozenset(untraced),
        )


class RpcServer(Component):
    """Serves `services`, which maps full service names to what registers their servicers.

    `guard` is entered around every call except those of health and reflection. `certificates` make
    the port one of TLS, by which clients prove who they are where there are authorities; `peers`,
    if given, are the services that may call, and `peers_of` who may call less (see `only_peers`).
    `draining` is set while the server takes no new calls; give it if a servicer's streams watch it.
    """

    def __init__(
        self,
        services: Mapping[str, Register],
        settings: ServerSettings,
        *,
        certificates: Certificates | None = None,
        peers: Collection[str] = (),
        peers_of: Mapping[str, Collection[str]] = MappingProxyType({}),
        guard: Guard = let_all_in,
        draining: asyncio.Event | None = None,
    ) -> None:
        super().__init__()
        self._services = dict(services)
        self._settings = settings
        self._credentials = server_credentials(certificates) if certificates else None
        self._guard = only_peers(peers, guard, peers_of) if certificates and peers else guard
        self._server: grpc.aio.Server | None = None
        self._interceptor: CallInterceptor | None = None
        self._health: health.aio.HealthServicer | None = None
        self.draining = draining or asyncio.Event()
        """Set while the server takes no new calls."""
        self.port = 0
        """The port that is listened on, once started; 0 for a Unix socket."""

    async def on_start(self) -> None:
        """Bind and serve; FailedPrecondition, PORT_UNAVAILABLE, if the address is taken."""
        self.draining.clear()
        rules = replace(self._settings.rules, most_at_once=self._settings.max_concurrent_rpcs)
        interceptor = CallInterceptor(rules, self.draining, self._guard)
        server = grpc.aio.server(
            interceptors=(*server_interceptors(self._settings.untraced), interceptor),
            options=SERVER_OPTIONS,
            maximum_concurrent_rpcs=self._settings.max_concurrent_rpcs + SPARE_RPCS,
        )
        for register in self._services.values():
            register(server)
        servicer = await self._add_health(server)
        if self._settings.reflection:
            names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        port = self._bind(server)
        await server.start()
        self._server, self._interceptor, self._health = server, interceptor, servicer
        self.port = 0 if self._settings.address.startswith("unix:") else port

    async def drain(self) -> None:
        """Say NOT_SERVING and refuse new calls; calls in flight go on."""
        if self._health is not None:
            self.draining.set()
            for name in ("", *self._services):
                await self._health.set(name, _NOT_SERVING)

    async def on_stop(self) -> None:
        """Give calls in flight `grace` seconds, then cancel them."""
        await self.drain()
        if self._server is not None and self._interceptor is not None:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.grace):
                        await self._interceptor.idle()
                await self._server.stop(FLUSH_SECONDS)
            except asyncio.CancelledError:
                await self._server.stop(0)
                raise
            self._server = None

    async def _add_health(self, server: grpc.aio.Server) -> health.aio.HealthServicer:
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        for name in ("", *self._services):
            await servicer.set(name, _SERVING)
        return servicer

    def _bind(self, server: grpc.aio.Server) -> int:
        address = self._settings.address
        try:
            if self._credentials is not None:
                return server.add_secure_port(address, self._credentials)
            return server.add_insecure_port(address)
        except RuntimeError as error:
            raise FailedPrecondition(
                f"cannot listen on {address}: it is in use or not an address of this machine",
                reason=Reason.PORT_UNAVAILABLE,
                metadata={"address": address},
            ) from error
