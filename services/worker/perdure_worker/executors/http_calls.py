"""Makes one HTTP call and says how far it came.

What became of a call that broke depends on one thing: whether its first byte may have left. The
connection's own events tell.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from http.cookiejar import CookieJar, DefaultCookiePolicy

import anyio
import httpcore
import httpx

from perdure_worker.egress.lookup import AddressRefused, NameUnresolved
from perdure_worker.executors.http_answer import Answer
from perdure_worker.executors.http_body import (
    ACCEPTED_ENCODING,
    BodyTooLarge,
    BodyUnreadable,
    read_beginning,
    read_body,
)
from perdure_worker.executors.http_redirects import (
    RedirectRefused,
    is_redirect,
    redirected,
)
from perdure_worker.executors.http_request import HttpRequest
from perdure_worker.executors.verdicts import Break, CallFailed, of_break, of_status, of_unusable

EXCERPT_BYTES = 8 * 1024
"""How much is read of the body of an answer that is not accepted."""

EXCERPT_SECONDS = 1.0
"""How long that may take: the status says all that matters."""

NO_COOKIES = DefaultCookiePolicy(allowed_domains=())


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Seconds for a connection to be there and for the next bytes to come, where the request does
    not say; `max_response` bytes of a body are taken.
    """

    connect: float
    read: float
    max_response: int


class _Stage(IntEnum):
    CONNECTING = 0
    SECURING = 1
    SENT = 2


_EVENTS: Mapping[str, _Stage] = {
    "connection.connect_tcp.started": _Stage.CONNECTING,
    "connection.start_tls.started": _Stage.SECURING,
    "http11.send_request_headers.started": _Stage.SENT,
}


@dataclass(slots=True)
class _Progress:
    stage: _Stage = _Stage.CONNECTING

    async def trace(self, event: str, _: Mapping[str, object]) -> None:
        """Hear of the connection's events."""
        self.stage = max(self.stage, _EVENTS.get(event, self.stage))

    @property
    def broke(self) -> Break:
        """How the call ended if it broke now."""
        if self.stage is _Stage.SENT:
            return Break.BROKEN_AFTER
        return Break.TLS_FAILED if self.stage is _Stage.SECURING else Break.CONNECT_FAILED

    @property
    def timed_out(self) -> Break:
        """How the call ended if its time was over now."""
        return Break.TIMEOUT_AFTER if self.stage is _Stage.SENT else Break.TIMEOUT_BEFORE


class HttpCalls:
    """Makes calls over the connections of one transport."""

    def __init__(self, transport: httpx.AsyncBaseTransport, limits: CallLimits) -> None:
        self._limits = limits
        # It would log each URL whole, with what is secret in its query.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        # The connections serve every org: a cookie that one was given must not go out for another.
        self._client = httpx.AsyncClient(
            transport=transport, trust_env=False, cookies=CookieJar(NO_COOKIES)
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def call(self, request: HttpRequest, deadline: float, redirects: int = 0) -> Answer:
        """Return the answer to a request, after at most so many redirects.

        `deadline` is an instant of the monotonic clock. Raises CallFailed.
        """
        answer = await self._call(request, deadline)
        followed = 0
        while redirects and is_redirect(request, answer.status, answer.headers):
            if followed == redirects:
                raise _astray(request, answer, "TOO_MANY_REDIRECTS", f"after {followed} redirects")
            request = _onwards(request, answer)
            answer = await self._call(request, deadline)
            followed += 1
        return answer

    async def _call(self, request: HttpRequest, deadline: float) -> Answer:
        progress = _Progress()
        async with _judging(request, progress):
            async with asyncio.timeout(deadline - time.monotonic()):
                response = await self._client.send(self._built(request, progress), stream=True)
            async with aclosing(response):
                body = await self._body(request, response, deadline)
        return Answer(response.status_code, response.headers, body, response.encoding or "utf-8")

    def _built(self, request: HttpRequest, progress: _Progress) -> httpx.Request:
        connect = request.timeouts.connect or self._limits.connect
        read = request.timeouts.read or self._limits.read
        headers = httpx.Headers(dict(request.headers))
        headers.setdefault("accept-encoding", ACCEPTED_ENCODING)
        return self._client.build_request(
            request.method,
            request.url,
            headers=headers,
            content=request.body,
            timeout=httpx.Timeout(connect=connect, read=read, write=read, pool=connect),
            extensions={"trace": progress.trace},
        )

    async def _body(self, request: HttpRequest, response: httpx.Response, deadline: float) -> bytes:
        if request.method == "HEAD":
            return b""
        if not request.accepts(response.status_code):
            return await _beginning(response, deadline)
        limit = self._limits.max_response
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await read_body(response, limit)
        except BodyTooLarge as error:
            raise _unusable(
                request, response, "RESPONSE_TOO_LARGE", f"a body of more than {limit} bytes"
            ) from error
        except BodyUnreadable as error:
            raise _unusable(request, response, "RESPONSE_UNREADABLE", str(error)) from error


async def _beginning(response: httpx.Response, deadline: float) -> bytes:
    """Return the beginning of a body of which only people will read."""
    body = bytearray()
    with anyio.move_on_after(min(EXCERPT_SECONDS, deadline - time.monotonic())):
        try:
            body += await read_beginning(response, EXCERPT_BYTES)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
            return b""
    return bytes(body)


@asynccontextmanager
async def _judging(request: HttpRequest, progress: _Progress) -> AsyncIterator[None]:
    """Turn whatever breaks a call into what is known of it."""
    try:
        yield
    except (httpx.InvalidURL, httpcore.UnsupportedProtocol) as error:
        raise _failed(Break.UNSENDABLE, request, error) from error
    except AddressRefused as error:
        raise _failed(Break.ADDRESS_REFUSED, request, error) from error
    except NameUnresolved as error:
        raise _failed(Break.NAME_UNRESOLVED, request, error) from error
    except httpcore.ConnectTimeout as error:
        raise _failed(progress.broke, request, error) from error
    except (httpcore.TimeoutException, TimeoutError) as error:
        raise _failed(progress.timed_out, request, error) from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise _failed(progress.broke, request, error) from error


def _failed(broke: Break, request: HttpRequest, error: Exception) -> CallFailed:
    what = str(error)
    return CallFailed(of_break(broke), f"{request.shown}: {broke}{': ' if what else ''}{what}")


def _unusable(request: HttpRequest, response: httpx.Response, code: str, what: str) -> CallFailed:
    status = response.status_code
    return CallFailed(
        of_unusable(status, code), f"{request.shown} was answered with {status} and {what}"
    )


def _onwards(request: HttpRequest, answer: Answer) -> HttpRequest:
    try:
        return redirected(request, answer.headers["location"])
    except RedirectRefused as error:
        raise _astray(request, answer, "REDIRECT_REFUSED", str(error)) from error


def _astray(request: HttpRequest, answer: Answer, code: str, why: str) -> CallFailed:
    verdict = replace(of_status(answer.status), code=code)
    return CallFailed(verdict, f"{request.shown}: the redirect is not followed: {why}")
