"""The transport of HTTP calls: pools of connections that only lead where they may.

httpx's own transport would take proxies and certificates from the environment and resolves names
by itself; here neither happens.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import aclosing
from typing import cast

import httpcore
import httpx

KEEP_ALIVE_SECONDS = 5.0


class EgressTransport(httpx.AsyncBaseTransport):
    """Sends over at most `connections` at once, kept open for later calls if `keeps`.

    Raises the errors of httpcore, which say more of where a call broke than httpx's.
    """

    def __init__(
        self,
        network: httpcore.AsyncNetworkBackend,
        tls: ssl.SSLContext,
        *,
        connections: int,
        keeps: bool,
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=connections,
            max_keepalive_connections=connections if keeps else 0,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
            network_backend=network,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return when the head of its answer is there."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        response = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=url,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in cast(AsyncIterable[bytes], self._response.stream):
            yield chunk

    async def aclose(self) -> None:
        """Give the connection back, or end it if the body was not read to its end."""
        async with aclosing(self._response):
            pass
