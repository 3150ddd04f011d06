"""What the HTTP port does not put up with: too much, too slow, too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from perdure_contracts.v1 import run_pb2, run_service_pb2
from perdure_ingest.http.requests import MAX_BODY_BYTES
from perdure_ingest.http.server import HttpServer, HttpSettings
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_runtime.rpc.interceptor import CallRules

JSON = {"Content-Type": "application/json"}
PATIENCE = 5.0
IDLE, SLOW = 1000, 200

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Problems = Callable[[httpx.Response], dict[str, str]]
Reasons = Callable[[httpx.Response], str]


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_f091_a_body_beyond_the_limit_is_refused_before_it_is_sent(
    raw: Connection, handlers: Any
) -> None:
    reader, writer = raw
    writer.write(
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)
    )
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert handlers.requests == []


async def test_a_body_that_is_waited_for_is_asked_for(raw: Connection, handlers: Any) -> None:
    reader, writer = raw
    writer.write(
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n"
    )
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b'{"workflow":"w"}')
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert handlers.requests[0].workflow == "w"


async def test_f091_a_body_without_length_is_refused_where_it_passes_the_limit(
    web: httpx.AsyncClient, handlers: Any, problems: Problems, reason: Reasons
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"workflow":"'
        for _ in range(MAX_BODY_BYTES // 65536 + 1):
            yield b"w" * 65536

    answer = await web.post("/v1/runs", content=chunks(), headers=JSON)
    assert answer.status_code == 413
    assert reason(answer) == "PAYLOAD_TOO_LARGE"
    assert "at most 4194304" in problems(answer)["body"]
    assert handlers.requests == []


async def test_a_head_beyond_the_limit_is_refused(web: httpx.AsyncClient) -> None:
    assert (await web.get("/v1/runs", headers={"X": "x" * 20_000})).status_code == 400
    assert (await web.get(f"/v1/runs?workflow={'w' * 20_000}")).status_code == 400


@pytest.mark.parametrize("settings", [{"read": 0.1}])
async def test_who_sends_no_request_is_cut(raw: Connection) -> None:
    reader, writer = raw
    writer.write(b"GET /v1/runs HTTP/1.1\r\nHost:")
    assert await read_to_end(reader) == b""


@pytest.mark.parametrize("settings", [{"read": 0.1}])
async def test_who_does_not_send_the_body_is_told(raw: Connection, handlers: Any) -> None:
    reader, writer = raw
    writer.write(
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408 ")
    assert handlers.requests == []


@pytest.mark.parametrize("settings", [{"idle": 0.1}])
async def test_a_connection_that_is_done_with_is_closed(raw: Connection) -> None:
    reader, writer = raw
    writer.write(b"GET /v1/runs HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await read_to_end(reader)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("settings", [{"send": 0.1}])
async def test_who_does_not_take_the_answer_is_cut(
    raw: Connection, handlers: Any, door: HttpServer
) -> None:
    taken = asyncio.Event()

    async def endless(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        run = run_pb2.Run(run_id="r", output=b'"' + b"x" * 3_000_000 + b'"')
        try:
            while True:
                yield run_service_pb2.WatchRunResponse(run=run)
        finally:
            taken.set()

    handlers.stream = endless
    _, writer = raw
    writer.write(b"GET /v1/runs/r/watch HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(PATIENCE):
        await taken.wait()


@pytest.mark.parametrize("settings", [{"max_connections": 1}])
async def test_one_connection_too_many_is_closed_and_the_others_go_on(
    raw: Connection, door: HttpServer
) -> None:
    reader, writer = raw
    writer.write(b"GET /v1/runs HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    second, other = await asyncio.open_connection("127.0.0.1", door.port)
    assert await read_to_end(second) == b""
    other.close()
    await reader.read(1000)
    writer.write(b"GET /v1/runs HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_thousand_idle_streams_and_slow_senders_leave_others_served(
    web: httpx.AsyncClient, handlers: Any, door: HttpServer
) -> None:
    over = asyncio.Event()

    async def idle(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        yield run_service_pb2.WatchRunResponse(run=run_pb2.Run(revision=1))
        await over.wait()

    handlers.stream = idle
    opened = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(IDLE + SLOW)]
    for _, writer in opened[:IDLE]:
        writer.write(b"GET /v1/runs/r/watch HTTP/1.1\r\nHost: x\r\n\r\n")
    for _, writer in opened[IDLE:]:
        writer.write(b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n")
    for reader, _ in opened[:IDLE]:
        await reader.readuntil(b"id: 1\n")
    async with asyncio.timeout(PATIENCE):
        for _ in range(20):
            assert (await web.get("/v1/runs")).status_code == 200
    over.set()
    for _, writer in opened:
        writer.close()


@pytest.mark.parametrize("settings", [{"rules": CallRules(most_at_once=1)}])
async def test_a_call_more_than_are_served_at_once_is_told_to_wait(
    web: httpx.AsyncClient, handlers: Any, reason: Reasons
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> run_service_pb2.GetRunResponse:
        asked.set()
        await go.wait()
        return run_service_pb2.GetRunResponse()

    handlers.answer = slow
    call = asyncio.create_task(web.get("/v1/runs/r"))
    await asked.wait()
    refused = await web.get("/v1/runs/r")
    assert (refused.status_code, reason(refused)) == (429, "RATE_LIMITED")
    assert int(refused.headers["Retry-After"]) >= 1
    go.set()
    assert (await call).status_code == 200


async def test_a_stop_waits_for_what_is_being_answered(
    web: httpx.AsyncClient, handlers: Any, door: HttpServer
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> run_service_pb2.GetRunResponse:
        asked.set()
        await go.wait()
        return run_service_pb2.GetRunResponse()

    handlers.answer = slow
    call = asyncio.create_task(web.get("/v1/runs/r"))
    await asked.wait()
    stop = asyncio.create_task(door.stop())
    await door.draining.wait()
    go.set()
    assert (await call).status_code == 200
    await stop
    with pytest.raises(httpx.ConnectError):
        await web.get("/v1/runs/r")


async def test_a_port_that_is_taken_is_refused_by_name(door: HttpServer, handlers: Any) -> None:
    rival = HttpServer({"all": handlers.register}, HttpSettings("127.0.0.1", door.port))
    with pytest.raises(FailedPrecondition) as refused:
        await rival.start()
    assert refused.value.reason == Reason.PORT_UNAVAILABLE
