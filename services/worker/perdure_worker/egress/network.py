"""Opens the TCP connections of HTTP calls, to addresses that were checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import anyio
import httpcore

from perdure_worker.egress.lookup import Lookup

SocketOptions = Iterable[httpcore.SOCKET_OPTION] | None


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Looks a host up, and connects to what may be called of it; each connection comes through
    here, those of redirects too, while TLS still proves the name that was asked for.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect within `timeout` seconds, the look-up and every address tried included.

        Raises NameUnresolved, AddressRefused, and `ConnectError` or `ConnectTimeout` of httpcore.
        """
        try:
            with anyio.fail_after(timeout) as limit:
                addresses = await self._lookup.addresses(host, port)
                return await self._first(addresses, port, limit.deadline, socket_options)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"no connection to {host} in time") from error

    async def _first(
        self, addresses: Sequence[str], port: int, deadline: float, options: SocketOptions
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that can be reached; each gets its share of the time."""
        *others, last = addresses
        for number, address in enumerate(others):
            share = (deadline - anyio.current_time()) / (len(addresses) - number)
            try:
                return await self._connect(address, port, share, options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._connect(last, port, deadline - anyio.current_time(), options)

    async def _connect(
        self, address: str, port: int, seconds: float, options: SocketOptions
    ) -> httpcore.AsyncNetworkStream:
        return await self._network.connect_tcp(
            address,
            port,
            timeout=seconds if math.isfinite(seconds) else None,
            socket_options=options,
        )

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: SocketOptions = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: a definition reaches nothing on this machine."""
        raise httpcore.ConnectError(f"no call goes to the socket {path}")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._network.sleep(seconds)
