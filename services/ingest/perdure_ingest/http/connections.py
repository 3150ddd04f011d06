"""The connections of the port: how many there may be, and how long one may say nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from perdure_runtime.metrics import gauge

OPEN = gauge("ingest_http_connections", "HTTP connections that are open.")

MAX_LINE_BYTES = 8190
MAX_HEADERS = 64
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read, so that its sender sees the answer."""

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_logger = logging.getLogger(__name__)


class Connections(web.Server):
    """Makes the protocol of each connection.

    One beyond `most` is closed at once, and so is one whose first request has not come within
    `head_seconds`; between two requests it may be silent for `idle_seconds`.
    """

    def __init__(
        self, handle: Handle, *, most: int, head_seconds: float, idle_seconds: float
    ) -> None:
        super().__init__(
            self._noting(handle),
            handler_cancellation=True,
            logger=_logger,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=idle_seconds,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
        )
        self._most = most
        self._head_seconds = head_seconds
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection, or close it."""
        super().connection_made(handler, transport)
        OPEN.set(len(self.connections))
        is_over = len(self.connections) > self._most
        self._silent[handler] = asyncio.get_running_loop().call_later(
            0.0 if is_over else self._head_seconds, handler.force_close
        )

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self._spoke(handler)
        super().connection_lost(handler, exc)
        OPEN.set(len(self.connections))

    def _spoke(self, handler: RequestHandler) -> None:
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _noting(self, handle: Handle) -> Handle:
        async def noted(request: web.BaseRequest) -> web.StreamResponse:
            self._spoke(request.protocol)
            return await handle(request)

        return noted
