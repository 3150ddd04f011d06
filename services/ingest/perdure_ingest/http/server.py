"""The port of HTTP/JSON, and what becomes of each request."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from aiohttp import web
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure_runtime.errors import FailedPrecondition, Internal, InvalidArgument, Reason
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log
from perdure_runtime.rpc.interceptor import CallInterceptor, CallRules, Guard, let_all_in
from perdure_runtime.rpc.server import Register
from perdure_runtime.tracing import span

from perdure_ingest.config import IngestConfig
from perdure_ingest.http.calls import CallContext, Calls, Read
from perdure_ingest.http.connections import Connections
from perdure_ingest.http.contracts import public_files
from perdure_ingest.http.description import DESCRIPTION_PATH, description
from perdure_ingest.http.events import PLACES
from perdure_ingest.http.requests import BodyRefused, read_message, seconds_given
from perdure_ingest.http.routes import Route, Routes
from perdure_ingest.http.sending import EventStream, Patience, send
from perdure_ingest.http.statuses import Answer, failure, no_route, refusal
from perdure_ingest.http.writing import to_json

CUT_SECONDS = 0.1
"""After the grace, or the last call: time for answers to leave before connections are cut."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`port` 0 takes a free one; times are seconds.

    `read` is how long a request's head may take, and its body; `idle` how long a connection may
    be silent between two; `send` how long a client may take to accept what it is sent; `grace`
    what calls in flight have at a stop.
    """

    host: str
    port: int
    max_connections: int = 4000
    read: float = 20.0
    idle: float = 75.0
    send: float = 60.0
    heartbeat: float = 15.0
    grace: float = 10.0
    rules: CallRules = field(default_factory=CallRules)

    @classmethod
    def from_config(cls, config: IngestConfig, *, rules: CallRules) -> HttpSettings:
        """Take what operators can set; as many calls at once are served as over gRPC."""
        return cls(
            host=config.host,
            port=config.http_port,
            max_connections=config.http_max_connections,
            rules=replace(rules, most_at_once=config.grpc_max_concurrent_rpcs),
        )


class HttpServer(Component):
    """Serves the routes of `services`, which map full service names to what registers them.

    `guard` is entered around every call, before its body is read. With `tls` the port is one of
    HTTPS.
    """

    def __init__(
        self,
        services: Mapping[str, Register],
        settings: HttpSettings,
        *,
        tls: ssl.SSLContext | None = None,
        guard: Guard = let_all_in,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._tls = tls
        self._routes = Routes(public_files())
        self._description = Answer(200, description())
        self._runner: web.ServerRunner | None = None
        self.draining = asyncio.Event()
        """Set while no new calls are taken."""
        interceptor = CallInterceptor(settings.rules, self.draining, guard)
        self._calls = Calls(list(services.values()), interceptor)
        self.port = 0
        """The port that is listened on, once started."""

    async def on_start(self) -> None:
        """Bind and serve; FailedPrecondition, PORT_UNAVAILABLE, if the address is taken."""
        self.draining.clear()
        settings = self._settings
        connections = Connections(
            self._handle,
            most=settings.max_connections,
            head_seconds=settings.read,
            idle_seconds=settings.idle,
        )
        runner = web.ServerRunner(connections, shutdown_timeout=CUT_SECONDS)
        await runner.setup()
        await self._listen(runner)
        self._runner = runner
        self.port = int(runner.addresses[0][1])

    async def drain(self) -> None:
        """Refuse new calls; calls in flight go on."""
        self.draining.set()

    async def on_stop(self) -> None:
        """Give calls in flight their grace, then cut what is left."""
        await self.drain()
        runner, self._runner = self._runner, None
        if runner is None:
            return
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.grace):
                    await self._calls.idle()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.ServerRunner) -> None:
        host, port = self._settings.host, self._settings.port
        try:
            await web.TCPSite(runner, host, port, ssl_context=self._tls).start()
        except OSError as error:
            await runner.cleanup()
            raise FailedPrecondition(
                f"cannot listen on {host}:{port}: {error.strerror}",
                reason=Reason.PORT_UNAVAILABLE,
                metadata={"address": f"{host}:{port}"},
            ) from error

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answered(request)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the last place that can answer
            log(_logger, "http.failed", level=logging.ERROR, exc_info=error)
            hidden = Internal("internal error; the log has it", reason=Reason.INTERNAL)
            return await self._send(request, refusal(hidden))

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if path == DESCRIPTION_PATH and request.method == "GET":
            return await self._send(request, self._description)
        found = self._routes.find(request.method, path)
        if isinstance(found, frozenset):
            return await self._send(request, no_route(request.method, path, found))
        route, values = found
        try:
            context = CallContext(request.headers, seconds_given(request), request.remote or "")
        except InvalidArgument as error:
            return await self._send(request, refusal(error))
        parent = request.headers.get("traceparent", "")
        with span(route.method.lstrip("/"), parent=parent, kind="server"):
            return await self._call(request, route, values, context)

    async def _call(
        self,
        request: web.BaseRequest,
        route: Route,
        values: Mapping[str, bytes],
        context: CallContext,
    ) -> web.StreamResponse:
        read = self._reader(request, route, values, context)
        if route.streams:
            patience = Patience(self._settings.heartbeat, self._settings.send)
            stream = EventStream(request, PLACES[route.method], patience, self.draining)
            return await stream.send(self._calls, route.method, read, context)
        outcome = await self._calls.single(route.method, read, context)
        if isinstance(outcome, Status):
            answer = failure(outcome, context.http_code)
        else:
            answer = Answer(200, to_json(outcome))
        return await self._send(request, answer)

    async def _send(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        return await send(request, answer, self._settings.send, is_last=self.draining.is_set())

    def _reader(
        self,
        request: web.BaseRequest,
        route: Route,
        values: Mapping[str, bytes],
        context: CallContext,
    ) -> Read:
        async def read() -> Message:
            try:
                return await read_message(request, route, values, self._settings.read)
            except BodyRefused as refused:
                context.http_code = refused.http_code
                raise

        return read
