"""Makes the one HTTP call of an http step and says what is known of it afterwards.

What became of a call that broke depends on one thing: whether its first byte may have left. The
connection's own events tell, so a refused connection, a failed look-up and a time-out while
connecting are a definite "not performed", and anything later is unknown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import ClassVar

import httpx
from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant
from perdure_runtime.lifecycle import Component
from perdure_runtime.tracing import current_traceparent

from perdure_worker.executors.http_answer import Answer, effect_of, to_outcome, without_query
from perdure_worker.executors.http_request import HttpRequest, RequestInvalid, read_request
from perdure_worker.executors.port import TryContext
from perdure_worker.outcome import Effect, ErrorClass, Failed, Outcome, timed_out

DEFAULT_TIMEOUT_SECONDS = 30.0
"""Longest a call takes when the definition sets no timeout."""

BIG_BODY_BYTES = 64 * 1024
"""Bodies beyond this are read in a thread, so that their JSON does not hold the loop (P8)."""

IDEMPOTENCY_HEADER = "idempotency-key"
UNSENDABLE = (
    httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, UnicodeEncodeError,
)  # fmt: skip
"""What httpx raises for a URL or a header that cannot be sent."""

SENDING = frozenset({"http11.send_request_headers.started", "http2.send_request_headers.started"})


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`max_response` bytes of a body are taken; at most `connections` are open."""

    max_response: int
    connections: int


class _TooLarge(Exception):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(status)


@dataclass(slots=True)
class _Progress:
    """How far a call came."""

    sent: bool = False

    async def trace(self, event: str, _: Mapping[str, object]) -> None:
        """Hear of the connection's events."""
        if event in SENDING:
            self.sent = True

    @property
    def effect(self) -> Effect:
        """What is known when the call broke now."""
        return Effect.UNKNOWN if self.sent else Effect.NOT_PERFORMED


class HttpExecutor(Component):
    """Sends requests over one pool of connections."""

    keeps_deadline: ClassVar[bool] = True

    def __init__(self, settings: HttpSettings) -> None:
        super().__init__()
        self._settings = settings
        self._client: httpx.AsyncClient | None = None

    async def on_start(self) -> None:
        """Make the pool."""
        limits = httpx.Limits(max_connections=self._settings.connections)
        # One pool serves every org: a cookie that one was given must not go out for another.
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        self._client = httpx.AsyncClient(timeout=None, limits=limits, cookies=no_cookies)

    async def on_stop(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def run(self, grant: StepGrant, context: TryContext) -> Outcome:
        """Make the call that the step's input describes."""
        try:
            request = read_request(grant.input)
        except RequestInvalid as error:
            return _invalid(error)
        progress = _Progress()
        try:
            async with asyncio.timeout(_seconds_left(context)):
                answer = await self._send(request, grant, progress)
        except TimeoutError:
            return timed_out(grant.timeout_ms / 1000 or DEFAULT_TIMEOUT_SECONDS, progress.effect)
        except UNSENDABLE as error:
            return _invalid(error)
        except (httpx.TransportError, httpx.DecodingError) as error:
            return _broken(request, error, progress)
        except _TooLarge as answered:
            return self._too_large(request, answered.status)
        return await _read(request, answer)

    async def _send(self, request: HttpRequest, grant: StepGrant, progress: _Progress) -> Answer:
        if self._client is None:
            raise RuntimeError("the executor was not started")
        sent = self._client.build_request(
            request.method,
            _url(request),
            headers=_headers(request, grant),
            content=request.body,
            extensions={"trace": progress.trace},
        )
        response = await self._client.send(sent, stream=True)
        async with aclosing(response):
            body = await self._body(response)
        encoding = response.encoding or "utf-8"
        return Answer(response.status_code, response.headers, body, encoding)

    async def _body(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._settings.max_response:
                raise _TooLarge(response.status_code)
        return bytes(body)

    def _too_large(self, request: HttpRequest, status: int) -> Failed:
        return Failed(
            ErrorClass.PERMANENT,
            "RESPONSE_TOO_LARGE",
            f"{request.method} {without_query(request.url)} was answered with {status} and a body "
            f"of more than {self._settings.max_response} bytes",
            effect=effect_of(status),
        )


async def _read(request: HttpRequest, answer: Answer) -> Outcome:
    now = datetime.now(UTC)
    if len(answer.body) > BIG_BODY_BYTES:
        return await asyncio.to_thread(to_outcome, request, answer, now)
    return to_outcome(request, answer, now)


def _seconds_left(context: TryContext) -> float:
    if context.deadline is None:
        return DEFAULT_TIMEOUT_SECONDS
    return max(0.0, context.deadline - time.monotonic())


def _url(request: HttpRequest) -> httpx.URL:
    url = httpx.URL(request.url)
    # Merging nothing would still rewrite the escapes of the query that is there.
    return url.copy_merge_params(dict(request.query)) if request.query else url


def _headers(request: HttpRequest, grant: StepGrant) -> httpx.Headers:
    headers = httpx.Headers(dict(request.headers))
    if request.body is not None:
        headers.setdefault("content-type", "application/json")
    if grant.HasField("effect"):
        headers.setdefault(IDEMPOTENCY_HEADER, grant.effect.key)
    traceparent = current_traceparent() or grant.traceparent
    if traceparent:
        headers.setdefault("traceparent", traceparent)
    return headers


def _invalid(error: Exception) -> Failed:
    return Failed(ErrorClass.PERMANENT, "REQUEST_INVALID", str(error), effect=Effect.NOT_PERFORMED)


def _broken(request: HttpRequest, error: Exception, progress: _Progress) -> Failed:
    code = "CONNECTION_BROKEN" if progress.sent else "CONNECT_FAILED"
    what = str(error) or type(error).__name__
    return Failed(
        ErrorClass.RETRYABLE,
        code,
        f"{request.method} {without_query(request.url)}: {what}",
        effect=progress.effect,
    )
