"""TLS of gRPC: both sides prove who they are, and use new files without a restart.

Services know each other by name: the certificate of one bears `SERVICE.perdure.internal`, whatever
its address is. A server takes a new certificate with the next handshake; a client opens another
channel when its files changed, and closes the old one when its calls have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import grpc

from perdure_runtime.certificates import Certificates, Material
from perdure_runtime.errors import PermissionDenied, Reason
from perdure_runtime.rpc.interceptor import Context, Guard

DOMAIN = "perdure.internal"
"""The names of services in certificates stand below it."""

OLD_CHANNEL_SECONDS = 60.0
"""How long calls of a channel that was replaced may go on."""

MakeChannel = Callable[[grpc.ChannelCredentials], grpc.aio.Channel]


def name_of(service: str) -> str:
    """Return the name that the certificate of a service bears."""
    return f"{service}.{DOMAIN}"


def server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Return credentials that ask for the newest files at each handshake."""
    seen: list[Material] = [certificates.current()]

    def newest() -> grpc.ServerCertificateConfiguration | None:
        found = certificates.current()
        if found == seen[0]:
            return None
        seen[0] = found
        return _configuration(found)

    asks = bool(certificates.files.authorities)
    # None says that nothing changed, which the types do not know.
    fetch = cast(Callable[[], grpc.ServerCertificateConfiguration], newest)
    return grpc.dynamic_ssl_server_credentials(_configuration(seen[0]), fetch, asks)


def channel_credentials(material: Material) -> grpc.ChannelCredentials:
    """Return what a client proves itself with and believes."""
    return grpc.ssl_channel_credentials(
        material.authorities or None, material.key, material.certificate
    )


def only_peers(
    services: Collection[str], then: Guard, narrower: Mapping[str, Collection[str]]
) -> Guard:
    """Let in calls of these services alone, by the names in their certificates.

    `narrower` names the callers of a method, or of all of a service, where they are others:
    `/package.Service/Method` or `/package.Service`.
    """
    everywhere = _names_of(services)
    apart = {place: _names_of(callers) for place, callers in narrower.items()}

    @asynccontextmanager
    async def admit(method: str, context: Context) -> Any:
        found = context.auth_context().get("x509_subject_alternative_name", ())
        of_service = apart.get(method.rpartition("/")[0], everywhere)
        if apart.get(method, of_service).isdisjoint(found):
            raise PermissionDenied(
                f"{method} is served to other services than the one of this certificate",
                reason=Reason.PERMISSION_MISSING,
                metadata={"method": method},
            )
        async with then(method, context):
            yield

    def guard(method: str, context: Context) -> AbstractAsyncContextManager[object]:
        return admit(method, context)

    return guard


def _names_of(services: Collection[str]) -> frozenset[bytes]:
    return frozenset(name_of(service).encode() for service in services)


class FollowingChannel(grpc.aio.Channel):
    """A channel that is another one when the files changed; stubs made on it stay."""

    def __init__(self, certificates: Certificates, make: MakeChannel) -> None:
        self._certificates = certificates
        self._make = make
        self._material = certificates.current()
        self._channel = make(channel_credentials(self._material))
        self._closing: set[asyncio.Task[None]] = set()

    def current(self) -> grpc.aio.Channel:
        """Return the channel for calls that begin now."""
        found = self._certificates.current()
        if found != self._material:
            old, self._channel = self._channel, self._make(channel_credentials(found))
            self._material = found
            task = asyncio.get_running_loop().create_task(old.close(OLD_CHANNEL_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return self._channel

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Make a method of the kind."""
        return _Method(self, "unary_unary", args, kwargs)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Make a method of the kind."""
        return _Method(self, "unary_stream", args, kwargs)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Make a method of the kind."""
        return _Method(self, "stream_unary", args, kwargs)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Make a method of the kind."""
        return _Method(self, "stream_stream", args, kwargs)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return the state of the channel for calls that begin now."""
        return self.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait until that is another."""
        await self.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until it is connected."""
        await self.current().channel_ready()

    async def close(self, grace: float | None = None) -> None:
        """Close it, and those that it replaced."""
        for task in tuple(self._closing):
            task.cancel()
        await self._channel.close(grace)

    async def __aenter__(self) -> FollowingChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Method:
    """A method of whatever channel is the current one."""

    def __init__(
        self, channel: FollowingChannel, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._channel = channel
        self._kind = kind
        self._args = args
        self._kwargs = kwargs
        self._made_on: grpc.aio.Channel | None = None
        self._method: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        channel = self._channel.current()
        if channel is not self._made_on:
            self._method = getattr(channel, self._kind)(*self._args, **self._kwargs)
            self._made_on = channel
        return self._method(*args, **kwargs)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], material.authorities or None
    )
