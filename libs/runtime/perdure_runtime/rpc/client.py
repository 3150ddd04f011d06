"""Calls to other services: one channel, one way to send, errors of the one tree.

Every send passes the fail point that the caller declares. UNAVAILABLE, and nothing else, is sent
again until the deadline, because every method that is called this way is idempotent (R5).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

import grpc
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_before_delay,
)

from perdure_runtime.backoff import Backoff
from perdure_runtime.certificates import Certificates
from perdure_runtime.config_groups import CoordinatorClientConfig
from perdure_runtime.errors import DeadlineExceeded, Reason, Unavailable
from perdure_runtime.fail_points import FailPoint
from perdure_runtime.metrics import counter
from perdure_runtime.rpc import deadline
from perdure_runtime.rpc.conversation import ConversingChannel
from perdure_runtime.rpc.errors import from_call_error
from perdure_runtime.rpc.options import client_options
from perdure_runtime.rpc.tls import FollowingChannel, name_of
from perdure_runtime.tracing import client_interceptors

RETRIES = counter("rpc_client_retries_total", "Sends after a failed one.", ("point", "reason"))

COORDINATOR = "coordinator"
"""The service that all others call."""

COORDINATOR_SERVICE = "perdure.internal.v1.CoordinatorService"
"""Its methods of many items."""

DEFAULT_RETRY = Backoff(base=0.05, factor=2.0, cap=2.0)

Request = TypeVar("Request")
Response = TypeVar("Response")
Metadata = Sequence[tuple[str, str | bytes]]


def open_channel(
    address: str,
    *,
    health_service: str | None = None,
    certificates: Certificates | None = None,
    peer: str = COORDINATOR,
    traced: bool = True,
) -> grpc.aio.Channel:
    """Open a channel to `host:port` (all its DNS addresses, in turn) or to `unix:/path`.

    With `health_service`, replicas that report that service NOT_SERVING get no calls. With
    `certificates`, both sides prove who they are, and the other must be the service `peer`.
    Of its calls spans are made only if it is `traced`; start tracing before opening channels.
    """
    target = address if address.startswith(("unix:", "dns:")) else f"dns:///{address}"
    options = client_options(health_service)
    interceptors = client_interceptors() if traced else ()
    if certificates is None:
        return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)
    named = (*options, ("grpc.ssl_target_name_override", name_of(peer)))

    def make(credentials: grpc.ChannelCredentials) -> grpc.aio.Channel:
        return grpc.aio.secure_channel(
            target, credentials, options=named, interceptors=interceptors
        )

    return FollowingChannel(certificates, make)


def open_client(
    address: str,
    *,
    health_service: str | None = None,
    certificates: Certificates | None = None,
    conversing: str | None = None,
) -> RpcClient:
    """Open both channels of a client; the other arguments are those of `open_channel`.

    Batches for the service `conversing`, a full name, go over a stream that stays open.
    """
    channel, batches = (
        open_channel(
            address, health_service=health_service, certificates=certificates, traced=traced
        )
        for traced in (True, False)
    )
    if conversing is None:
        return RpcClient(channel, batches)
    # It makes the methods that stubs ask of a channel, and is no channel otherwise.
    return RpcClient(channel, cast(grpc.aio.Channel, ConversingChannel(batches, conversing)))


def open_coordinator_client(config: CoordinatorClientConfig) -> RpcClient:
    """Open a client of the coordinator as a service's config says."""
    return open_client(
        config.coordinator_address,
        health_service=COORDINATOR_SERVICE,
        certificates=config.certificates(),
        conversing=COORDINATOR_SERVICE if config.converse else None,
    )


class RpcClient:
    """Sends requests; make the stubs on `channel`, or on `batches` for calls of many items.

    Each item of a batch brings the trace that it belongs to, so the call itself is part of none;
    to find that out call by call costs as much as the call.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        batches: grpc.aio.Channel | None = None,
        *,
        retry: Backoff = DEFAULT_RETRY,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.channel = channel
        self.batches = batches or channel
        self._retry = retry
        self._jitter = jitter

    async def start(self) -> None:
        """Nothing to do: a channel connects at its first call."""

    async def drain(self) -> None:
        """Nothing to do: who calls stops calling."""

    async def stop(self) -> None:
        """Close the channels, ending calls in flight; they are not opened again."""
        await self.batches.close()
        await self.channel.close()

    async def call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        *,
        timeout: float,
        fail_point: FailPoint,
        metadata: Metadata = (),
    ) -> Response:
        """Send `request` and return the answer, within `timeout` seconds over all tries.

        The deadline of the call that is being served bounds it too. Raises what the server raised,
        Unavailable if it could not be reached in time, DeadlineExceeded if it did not answer.
        """
        left = deadline.remaining()
        allowed = timeout if left is None else min(timeout, left)
        sending = _Sending(method, request, allowed, fail_point, tuple(metadata))
        try:
            return await sending.send(allowed)
        except Unavailable:
            # tenacity costs a tenth of a call, so only a call that failed pays for it.
            return await self._retrying(sending.left(), fail_point)(sending.send_again)

    async def call_once(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        *,
        timeout: float,
        fail_point: FailPoint,
    ) -> Response:
        """Do as `call`, but send it once: a repeat of it would be something else."""
        return await _Sending(method, request, timeout, fail_point, ()).send(timeout)

    def _retrying(self, left: float, fail_point: FailPoint) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception_type(Unavailable),
            wait=self._pause,
            stop=stop_before_delay(left),
            before_sleep=_count_retry(fail_point.name),
            reraise=True,
        )

    def _pause(self, state: RetryCallState) -> float:
        pause = self._retry.seconds(state.attempt_number, self._jitter())
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, Unavailable) else None
        return max(pause, asked or 0.0)


class _Sending(Generic[Request, Response]):
    """One request until its deadline, try by try."""

    def __init__(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        allowed: float,
        fail_point: FailPoint,
        metadata: tuple[tuple[str, str | bytes], ...],
    ) -> None:
        self._method = method
        self._request = request
        self._ends_at = asyncio.get_running_loop().time() + allowed
        self._fail_point = fail_point
        self._metadata = metadata
        self._failed: Unavailable | None = None
        self._is_counted = False

    def left(self) -> float:
        """Seconds until the deadline."""
        return self._ends_at - asyncio.get_running_loop().time()

    async def send(self, left: float) -> Response:
        """Try once with all the time that is left."""
        if left <= 0:
            raise self._failed or DeadlineExceeded(
                "no time left to send", reason=Reason.DEADLINE_EXCEEDED
            )
        try:
            await self._fail_point.before()
            answer = await self._method(self._request, timeout=left, metadata=self._metadata)
            await self._fail_point.after()
        except Unavailable as error:
            self._failed = error
            raise
        except grpc.aio.AioRpcError as error:
            known = from_call_error(error)
            if isinstance(known, Unavailable):
                self._failed = known
            raise known from error
        return answer

    async def send_again(self) -> Response:
        """Raise the failure of the first try, so that it is counted and waited for, then send."""
        if self._failed is not None and not self._is_counted:
            self._is_counted = True
            raise self._failed
        return await self.send(self.left())


def _count_retry(point: str) -> Callable[[RetryCallState], None]:
    def count(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        RETRIES.labels(point, error.reason if isinstance(error, Unavailable) else "").inc()

    return count
