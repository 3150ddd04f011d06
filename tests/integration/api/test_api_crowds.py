"""Many idle callers, and callers that never finish a request: others are served all the while."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing
from typing import Any

import grpc
import pytest
from perdure import Client
from perdure_contracts.v1.run_service_pb2 import WatchRunRequest
from perdure_contracts.v1.run_service_pb2_grpc import RunServiceStub
from perdure_ingest.app import Ingest
from perdure_runtime.errors import Reason, ResourceExhausted
from perdure_runtime.rpc.errors import from_call_error
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database

STREAMS = 1000
"""As many as one process watches runs for."""

PER_CONNECTION = 100
PER_KEY = 500
"""As many as one key may have open."""

CHANGES = 200
"""Of a run, while somebody watches it who does not read."""

UNFINISHED = 200
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What begins a connection of HTTP/2; these callers stop somewhere in it."""


@pytest.fixture
async def run_id(address: str, api_key: str) -> AsyncIterator[str]:
    """A run that waits for an hour."""
    async with Client(address, api_key=api_key, timeout=20.0) as client:
        await client.publish_workflow(json.dumps({"name": "w", "nodes": {"a": {"wait": "1h"}}}))
        yield (await client.start_run("w")).run_id


async def test_a_thousand_idle_streams_leave_other_callers_served_and_end_well(
    ingest: Ingest, address: str, run_id: str, api_key: str, database: Database
) -> None:
    admin = await database.connect()
    crowds = [presenting(await give_key(admin)) for _ in range(STREAMS // PER_KEY)]
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(address, (("n", number),)))
            for number in range(STREAMS // PER_CONNECTION)
        ]
        request = WatchRunRequest(run_id=run_id)
        streams: list[Any] = []
        for channel in channels:
            watch = RunServiceStub(channel).WatchRun
            crowd = crowds[len(streams) // PER_KEY]
            opened = [watch(request, metadata=crowd) for _ in range(PER_CONNECTION)]
            first: list[Any] = await asyncio.gather(*(stream.read() for stream in opened))
            assert {answer.run.run_id for answer in first} == {run_id}
            streams += opened
            if len(streams) == PER_KEY:
                await is_refused(channels[0], request, crowd, "key")
                await others_watch(address, run_id, api_key)
        await is_refused(channels[0], request, presenting(api_key), "watch")
        await others_are_served(address, run_id, api_key)
        ends = asyncio.gather(*(stream.read() for stream in streams))
        await ingest.drain()
        assert set(await ends) == {grpc.aio.EOF}
        assert {await stream.code() for stream in streams} == {grpc.StatusCode.OK}


async def test_a_caller_that_does_not_read_holds_up_nobody_and_hears_the_newest(
    address: str, run_id: str, api_key: str
) -> None:
    async with (
        Client(address, api_key=api_key, timeout=20.0) as client,
        grpc.aio.insecure_channel(address) as channel,
    ):
        wide = {f"n{number}": {"wait": "1h"} for number in range(100)}
        await client.publish_workflow(json.dumps({"name": "wide", "nodes": wide}))
        watched = (await client.start_run("wide")).run_id
        request = WatchRunRequest(run_id=watched)
        slow: Any = RunServiceStub(channel).WatchRun(request, metadata=presenting(api_key))
        for _ in range(CHANGES // 2):
            await client.pause_run(watched)
            await client.resume_run(watched)
        newest = (await client.get_run(watched)).revision
        await others_are_served(address, run_id, api_key)
        heard = [answer := await slow.read()]
        while answer.run.revision < newest:
            heard.append(answer := await slow.read())
        slow.cancel()
    assert len(heard) < CHANGES


@pytest.fixture
def unfinished(address: str) -> Iterator[int]:
    """Callers whose requests never end; returns how many."""
    host, _, port = address.partition(":")
    with ExitStack() as stack:
        for number in range(UNFINISHED):
            one = stack.enter_context(socket.create_connection((host, int(port))))
            one.sendall(PREFACE[: number % len(PREFACE) + 1])
        yield UNFINISHED


@pytest.mark.usefixtures("unfinished")
async def test_callers_that_never_finish_leave_other_callers_served(
    address: str, run_id: str, api_key: str
) -> None:
    await others_are_served(address, run_id, api_key)


def presenting(api_key: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of calls with a key."""
    return (("authorization", f"Bearer {api_key}"),)


async def is_refused(
    channel: grpc.aio.Channel, request: WatchRunRequest, key: tuple[tuple[str, str], ...], by: str
) -> None:
    """See that one stream more is told to come back, because of the limit of `by`."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await RunServiceStub(channel).WatchRun(request, metadata=key).read()
    error = from_call_error(refused.value)
    assert isinstance(error, ResourceExhausted)
    assert (error.reason, error.metadata["scope"]) == (Reason.RATE_LIMITED, by)
    assert error.retry_after


async def others_watch(address: str, run_id: str, api_key: str) -> None:
    """Watch as others do, whose key has no stream open."""
    async with (
        Client(address, api_key=api_key, timeout=5.0, attempts=1) as client,
        aclosing(client.watch_run(run_id)) as states,
    ):
        assert (await anext(states)).run_id == run_id


async def others_are_served(address: str, run_id: str, api_key: str) -> None:
    """Call as others do; each call has 5 s."""
    async with Client(address, api_key=api_key, timeout=5.0, attempts=1) as client:
        for _ in range(20):
            assert (await client.get_run(run_id)).run_id == run_id
        assert (await client.start_run("w")).created
