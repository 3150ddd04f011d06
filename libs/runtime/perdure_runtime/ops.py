"""The ops HTTP port: `/livez`, `/readyz`, `/metrics`.

- `/livez` asks nothing of anybody: it fails only when the event loop has been too late, for then a
  restart helps. A database that is down is no reason to restart.
- `/readyz` runs the registered checks and fails while the process starts or drains.
- `/metrics` is Prometheus text, or OpenMetrics for those who ask for it.

The server is a few lines on asyncio: one request per connection, GET alone, everything bounded. It
costs no memory to speak of and shares no code with the doors to the outside.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from perdure_runtime.errors import FailedPrecondition, PerdureError, Reason
from perdure_runtime.lifecycle import Component
from perdure_runtime.metrics import LoopLag

MAX_HEAD_BYTES = 8192
READ_SECONDS = 5.0
CHECK_SECONDS = 2.0
MAX_LAG_SECONDS = 15.0
MAX_CONNECTIONS = 64

Check = Callable[[], Awaitable[str]]
"""Returns "" when ready, else what is not; may raise a PerdureError instead."""

_JSON = "application/json"
_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: bytes
    content_type: str = _JSON

    def encode(self) -> bytes:
        """Return the answer as it goes over the wire."""
        phrase = _PHRASES.get(self.status, "Service Unavailable")
        head = (
            f"HTTP/1.1 {self.status} {phrase}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + self.body


class OpsServer(Component):
    """Serves the ops port of a process; `draining` and `starting` make it not ready."""

    def __init__(self, host: str, port: int, *, lag: LoopLag | None = None) -> None:
        super().__init__()
        self._host = host
        self._asked_port = port
        self._lag = lag
        self._checks: dict[str, Check] = {}
        self._server: asyncio.Server | None = None
        self._open = 0
        self.starting = True
        self.draining = False
        self.port = 0
        """The port that is listened on, once started."""

    def add_check(self, name: str, check: Check) -> None:
        """Make readiness depend on `check`, which is given some seconds each time."""
        self._checks[name] = check

    async def on_start(self) -> None:
        """Bind and serve; FailedPrecondition, PORT_UNAVAILABLE, if the address is taken."""
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._asked_port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            address = f"{self._host}:{self._asked_port}"
            raise FailedPrecondition(
                f"cannot listen on {address}: {error.strerror}",
                reason=Reason.PORT_UNAVAILABLE,
                metadata={"address": address},
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def on_stop(self) -> None:
        """Close the port."""
        if self._server is not None:
            server, self._server = self._server, None
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                async with asyncio.timeout(READ_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                writer.write((await self._answer(head)).encode())
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Who sends no request in time and size gets no answer.
            return
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> Answer:
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3:
            return Answer(400, b"{}")
        if parts[0] != "GET":
            return Answer(405, b"{}")
        match parts[1].partition("?")[0]:
            case "/livez":
                return self._live()
            case "/readyz":
                return await self._ready()
            case "/metrics":
                return _metrics(_accept(lines))
            case _:
                return Answer(404, b"{}")

    def _live(self) -> Answer:
        lag = self._lag.seconds if self._lag else 0.0
        body = json.dumps({"event_loop_lag_seconds": round(lag, 6)}).encode()
        return Answer(200 if lag <= MAX_LAG_SECONDS else 503, body)

    async def _ready(self) -> Answer:
        found = dict(
            zip(
                self._checks,
                await asyncio.gather(*(_run_check(check) for check in self._checks.values())),
                strict=True,
            )
        )
        found |= {"process": "draining"} if self.draining else {}
        found |= {"process": "starting"} if self.starting else {}
        body = json.dumps({name: text or "ok" for name, text in found.items()}).encode()
        return Answer(503 if any(found.values()) else 200, body)


async def _run_check(check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} seconds"
    except PerdureError as error:
        return f"{error.reason}: {error.message}"


def _accept(lines: list[str]) -> str:
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "accept":
            return value.strip()
    return ""


def _metrics(accept: str) -> Answer:
    encode, content_type = choose_encoder(accept)
    return Answer(200, encode(REGISTRY), content_type)
