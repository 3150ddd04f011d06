"""The channel to ingest, and the one place that sends: deadline, retries, errors."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator, Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import grpc

from perdure.errors import PerdureApiError, PerdureUnavailable, from_rpc_error

AUTHORIZATION = "authorization"
RATE_LIMITED = "RATE_LIMITED"

FIRST_PAUSE = 0.1
"""Longest pause before the first repeat, seconds; it doubles from one repeat to the next."""

LONGEST_PAUSE = 5.0
"""Longest pause between two repeats, seconds."""

WATCH_ATTEMPTS = 20
"""Repeats in a row of a stream that had been answered before: about a minute without a server."""

STREAM_SECONDS = 300.0
"""Deadline of one stream; ingest ends it long before, and asks to come back."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

SERVICE_CONFIG = (files("perdure_contracts.v1") / "service_config.json").read_text("utf-8")
"""What the channel does by itself: which replica gets a call, and how long a call may take."""

_OPTIONS = (
    ("grpc.service_config", SERVICE_CONFIG),
    # Calls are repeated here, with the wait that the server asks for, which the transport ignores.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5000),
    ("grpc.keepalive_time_ms", 60_000),
)


SECURE = "https://"
"""Before an address: the server proves who it is."""

AUTHORITIES = "PERDURE_CA_FILE"
"""Environment variable: a file with the authorities, in PEM, that are believed alone."""


class Transport:
    """A channel to `address`, which is `host:port`, or by TLS `https://host:port`.

    Calls end within `timeout` seconds and are tried `attempts` times. Each presents `api_key`, if
    there is one. Only an answer that says "not now" is repeated. Every call of the API is safe to
    repeat, because starts carry a key.
    """

    def __init__(self, address: str, *, timeout: float, attempts: int, api_key: str = "") -> None:
        self._address = address
        self._timeout = timeout
        self._attempts = attempts
        self._metadata = ((AUTHORIZATION, f"Bearer {api_key}"),) if api_key else ()

    @cached_property
    def channel(self) -> grpc.aio.Channel:
        """The channel, made at its first use: it belongs to the event loop that runs then."""
        if not self._address.startswith(SECURE):
            return grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        place = self._address.removeprefix(SECURE)
        return grpc.aio.secure_channel(place, _believed(), options=_OPTIONS)

    async def close(self) -> None:
        """Close the channel; calls in flight are cancelled."""
        await self.channel.close()

    async def call(
        self, method: grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        """Send one request. Raises PerdureApiError."""
        deadline = time.monotonic() + self._timeout
        failures = 0
        while True:
            try:
                left = max(deadline - time.monotonic(), 0.0)
                return await method(request, timeout=left, metadata=self._metadata)
            except grpc.aio.AioRpcError as error:
                failure = from_rpc_error(error)
            failures += 1
            pause = pause_before(failures, failure.retry_after)
            is_repeatable = says_not_now(failure) and failures < self._attempts
            if not is_repeatable or time.monotonic() + pause >= deadline:
                raise failure
            await asyncio.sleep(pause)

    async def stream(
        self, method: grpc.aio.UnaryStreamMultiCallable[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT, None]:
        """Send one request and yield its answers until the server ends the stream.

        Raises PerdureApiError; what to do about a broken stream is the caller's to decide.
        """
        call = method(request, timeout=STREAM_SECONDS, metadata=self._metadata)
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        finally:
            call.cancel()

    async def pause_after(self, failure: PerdureUnavailable, failures: int, *, seen: bool) -> None:
        """Wait before a broken stream is opened again; raise `failure` if that was tried enough."""
        if failures >= (WATCH_ATTEMPTS if seen else self._attempts):
            raise failure
        await asyncio.sleep(pause_before(failures, failure.retry_after))


def says_not_now(failure: PerdureApiError) -> bool:
    """Tell whether the call may succeed later: nobody answered, or the key is over its rate."""
    return isinstance(failure, PerdureUnavailable) or (
        failure.reason == RATE_LIMITED and failure.retry_after is not None
    )


def pause_before(failures: int, retry_after: float | None) -> float:
    """Return the seconds to wait after so many failures: what the server asked, and full jitter."""
    return (retry_after or 0.0) + random.uniform(
        0, min(FIRST_PAUSE * 2.0 ** (failures - 1), LONGEST_PAUSE)
    )


def blocking_channel(address: str, options: Sequence[tuple[str, str | int]]) -> grpc.Channel:
    """Open a channel for threads to an address as `Transport` takes it."""
    if not address.startswith(SECURE):
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address.removeprefix(SECURE), _believed(), options=options)


def _believed() -> grpc.ChannelCredentials:
    path = os.environ.get(AUTHORITIES, "")
    return grpc.ssl_channel_credentials(Path(path).read_bytes() if path else None)
