"""Makes one gRPC call and says how far it came.

A channel is made for each call, to an address that was checked, and the method is called only when
its connection is there: so what fails before was certainly not sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from perdure_worker.egress.lookup import AddressRefused, Lookup, NameUnresolved
from perdure_worker.executors.grpc_request import GrpcRequest
from perdure_worker.executors.retry_after import bounded_wait
from perdure_worker.executors.verdicts import Break, CallFailed, of_break, of_grpc, of_unusable

DETAILS = "grpc-status-details-bin"
TOO_LARGE_HERE = "CLIENT: Received message larger than max"
"""What gRPC says when it is this side that refuses an answer for its size."""

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """`connect` seconds for a connection to be there; answers have at most `max_response` bytes."""

    connect: float
    max_response: int
    authorities: bytes


@asynccontextmanager
async def connected(
    request: GrpcRequest, lookup: Lookup, settings: ChannelSettings
) -> AsyncIterator[grpc.aio.Channel]:
    """Give a channel whose connection is there. Raises CallFailed."""
    try:
        async with asyncio.timeout(settings.connect):
            channel = await _first(request, lookup, settings)
    except AddressRefused as error:
        raise _failed(Break.ADDRESS_REFUSED, request, str(error)) from error
    except NameUnresolved as error:
        raise _failed(Break.NAME_UNRESOLVED, request, str(error)) from error
    except TimeoutError as error:
        raise _failed(Break.CONNECT_FAILED, request, f"{settings.connect:g} s") from error
    try:
        yield channel
    finally:
        await channel.close()


async def call(
    channel: grpc.aio.Channel, request: GrpcRequest, message: bytes, metadata: Metadata,
    deadline: float,
) -> bytes:  # fmt: skip
    """Return the answer's message. `deadline` is monotonic. Raises CallFailed."""
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/{request.service}/{request.method}"
    )
    try:
        return await method(message, timeout=deadline - time.monotonic(), metadata=metadata)
    except grpc.aio.AioRpcError as error:
        raise _refused(request, error) from error


async def _first(
    request: GrpcRequest, lookup: Lookup, settings: ChannelSettings
) -> grpc.aio.Channel:
    """Return a channel to the first address that can be reached."""
    addresses = await lookup.addresses(request.host, request.port)
    for address in addresses:
        channel = _channel(address, request, settings)
        try:
            if await _is_ready(channel):
                return channel
        except BaseException:
            await channel.close()
            raise
        await channel.close()
    raise _failed(Break.CONNECT_FAILED, request, "")


async def _is_ready(channel: grpc.aio.Channel) -> bool:
    state = channel.get_state(try_to_connect=True)
    while state not in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
    return state is grpc.ChannelConnectivity.READY


def _channel(address: str, request: GrpcRequest, settings: ChannelSettings) -> grpc.aio.Channel:
    target = (
        f"ipv6:[{address}]:{request.port}" if ":" in address else f"ipv4:{address}:{request.port}"
    )
    options: list[tuple[str, str | int]] = [
        ("grpc.default_authority", request.authority),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", settings.max_response),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if request.plaintext:
        return grpc.aio.insecure_channel(target, options)
    credentials = grpc.ssl_channel_credentials(settings.authorities)
    options.append(("grpc.ssl_target_name_override", request.host))
    return grpc.aio.secure_channel(target, credentials, options)


def _failed(broke: Break, request: GrpcRequest, what: str) -> CallFailed:
    return CallFailed(of_break(broke), f"{request.shown}: {broke}{': ' if what else ''}{what}")


def _refused(request: GrpcRequest, error: grpc.aio.AioRpcError) -> CallFailed:
    code, said = error.code(), error.details() or ""
    message = f"{request.shown} was answered with {code.name}: {said}"
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and TOO_LARGE_HERE in said:
        return CallFailed(of_unusable(200, "RESPONSE_TOO_LARGE"), message)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return _failed(Break.TIMEOUT_AFTER, request, "")
    return CallFailed(of_grpc(code), message, wait=_asked_wait(error))


def _asked_wait(error: grpc.aio.AioRpcError) -> float | None:
    """Return the seconds that the server asks to wait, None if it asks for none."""
    found = next((value for name, value in error.trailing_metadata() if name == DETAILS), b"")
    with suppress(DecodeError):
        for detail in Status.FromString(found if isinstance(found, bytes) else b"").details:
            info = RetryInfo()
            if detail.Unpack(info):
                return bounded_wait(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    return None
