"""Streams over HTTP are server-sent events: ids, signs of life, and an end that is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from perdure_contracts.v1 import run_pb2, run_service_pb2
from perdure_ingest.http.server import HttpServer
from perdure_runtime.errors import NotFound, Reason

WATCH = "/v1/runs/r/watch"

Reasons = Callable[[httpx.Response], str]


def run_at(revision: int, output: bytes = b"") -> run_service_pb2.WatchRunResponse:
    run = run_pb2.Run(run_id="r", revision=revision, output=output)
    return run_service_pb2.WatchRunResponse(run=run)


async def blocks_of(answer: httpx.Response) -> AsyncIterator[dict[str, str]]:
    """Each block between empty lines, by field; a comment is the field of no name."""
    block = dict[str, str]()
    async for line in answer.aiter_lines():
        if not line:
            yield block
            block = {}
            continue
        name, _, value = line.partition(":")
        before = f"{block[name]}\n" if name in block else ""
        block[name] = before + value.removeprefix(" ")


async def test_answers_come_as_events_with_ids_and_an_end(
    web: httpx.AsyncClient, handlers: Any
) -> None:
    payload = b'{"a":\r\n 12345678901234567890123,\n"b": "\\n"}'

    async def twice(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        yield run_at(3)
        yield run_at(5, payload)

    handlers.stream = twice
    async with web.stream("GET", f"{WATCH}?until=receipt") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        blocks = [block async for block in blocks_of(answer)]
    assert handlers.requests[0].until == "receipt"
    retry, first, second, end = blocks
    assert retry == {"retry": "1000"}
    assert first["id"] == "3"
    assert json.loads(first["data"])["run"]["revision"] == "3"
    assert second["id"] == "5"
    assert payload.replace(b"\r\n", b"\n").decode() in second["data"]
    assert end == {"event": "end", "data": "{}"}


async def test_a_stream_goes_on_after_the_last_event_seen(
    web: httpx.AsyncClient, handlers: Any
) -> None:
    async def once(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        yield run_at(request.after_revision + 1)

    handlers.stream = once
    answer = await web.get(WATCH, headers={"Last-Event-ID": "41"})
    assert "id: 42\n" in answer.text
    bad = await web.get(WATCH, headers={"Last-Event-ID": "4_1"})
    assert bad.status_code == 400
    assert "Last-Event-ID" in bad.text


async def test_a_reader_of_what_is_over_is_told_not_to_come_back(web: httpx.AsyncClient) -> None:
    answer = await web.get(WATCH)
    assert answer.status_code == 204
    assert answer.content == b""


async def test_a_failure_before_the_first_event_is_an_answer_as_any(
    web: httpx.AsyncClient, handlers: Any, reason: Reasons
) -> None:
    async def fail(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        raise NotFound("no", reason=Reason.RUN_NOT_FOUND)
        yield run_at(1)  # type: ignore[unreachable]

    handlers.stream = fail
    answer = await web.get(WATCH)
    assert answer.status_code == 404
    assert reason(answer) == "RUN_NOT_FOUND"


async def test_a_failure_later_is_an_event(web: httpx.AsyncClient, handlers: Any) -> None:
    async def fail(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        yield run_at(1)
        raise NotFound("no", reason=Reason.RUN_NOT_FOUND)

    handlers.stream = fail
    async with web.stream("GET", WATCH) as answer:
        *_, last = [block async for block in blocks_of(answer)]
    assert last["event"] == "error"
    assert json.loads(last["data"])["details"][0]["reason"] == "RUN_NOT_FOUND"


@pytest.mark.parametrize("settings", [{"heartbeat": 0.02}])
async def test_a_silent_stream_shows_that_it_lives_until_its_reader_goes(
    web: httpx.AsyncClient, handlers: Any
) -> None:
    ended = asyncio.Event()

    async def silent(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        try:
            yield run_at(1)
            await asyncio.Event().wait()
        finally:
            ended.set()

    handlers.stream = silent
    async with web.stream("GET", WATCH) as answer:
        beats = 0
        async for block in blocks_of(answer):
            beats += "" in block
            if beats == 3:
                break
    async with asyncio.timeout(5):
        await ended.wait()


async def test_a_stream_that_is_drained_is_told_its_end(
    web: httpx.AsyncClient, handlers: Any, door: HttpServer
) -> None:
    async def until_drained(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        yield run_at(1)
        await door.draining.wait()

    handlers.stream = until_drained
    async with web.stream("GET", WATCH) as answer:
        blocks = blocks_of(answer)
        assert (await anext(blocks)) == {"retry": "1000"}
        assert (await anext(blocks))["id"] == "1"
        await door.drain()
        rest = [block async for block in blocks]
    assert rest == [{"event": "end", "data": "{}"}]


async def test_a_stop_cuts_what_does_not_end(
    web: httpx.AsyncClient, handlers: Any, door: HttpServer
) -> None:
    async def endless(request: Any) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        yield run_at(1)
        await asyncio.Event().wait()

    handlers.stream = endless
    async with web.stream("GET", WATCH) as answer:
        blocks = blocks_of(answer)
        await anext(blocks)
        await door.stop()
        with suppress(httpx.RemoteProtocolError):
            assert [block async for block in blocks][1:] == []
