import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
from perdure_runtime import ops
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_runtime.lifecycle import Service
from perdure_runtime.metrics import LoopLag
from perdure_runtime.ops import MAX_HEAD_BYTES, MAX_LAG_SECONDS, OpsServer


@pytest.fixture
def lag() -> LoopLag:
    return LoopLag()


@pytest.fixture
async def server(lag: LoopLag) -> AsyncIterator[OpsServer]:
    server = OpsServer("127.0.0.1", 0, lag=lag)
    await server.start()
    server.starting = False
    yield server
    await server.stop()


async def get(server: OpsServer, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(f"http://127.0.0.1:{server.port}{path}", headers=headers)


async def raw(server: OpsServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_process_lives_while_its_event_loop_is_in_time(
    server: OpsServer, lag: LoopLag
) -> None:
    assert (await get(server, "/livez")).status_code == 200
    lag.seconds = MAX_LAG_SECONDS + 1
    assert (await get(server, "/livez")).status_code == 503


async def test_liveness_asks_no_check(server: OpsServer) -> None:
    async def down() -> str:
        return "database is down"

    server.add_check("database", down)
    assert (await get(server, "/livez")).status_code == 200


async def test_readiness_runs_every_check_and_says_what_is_not_ready(server: OpsServer) -> None:
    async def fine() -> str:
        return ""

    async def old() -> str:
        raise FailedPrecondition("run perdure migrate", reason=Reason.SCHEMA_MISMATCH)

    server.add_check("peer", fine)
    assert (await get(server, "/readyz")).status_code == 200
    server.add_check("schema", old)
    answer = await get(server, "/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"peer": "ok", "schema": "SCHEMA_MISMATCH: run perdure migrate"}


async def test_a_check_that_hangs_is_not_ready(
    server: OpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(ops, "CHECK_SECONDS", 0.01)
    server.add_check("database", hang)
    answer = await get(server, "/readyz")
    assert (answer.status_code, answer.json()) == (
        503,
        {"database": "no answer within 0.01 seconds"},
    )


async def test_a_process_is_not_ready_while_it_starts_or_drains(server: OpsServer) -> None:
    server.starting = True
    assert (await get(server, "/readyz")).json() == {"process": "starting"}
    server.starting, server.draining = False, True
    answer = await get(server, "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"process": "draining"})


async def test_metrics_come_in_the_form_that_is_asked_for(server: OpsServer) -> None:
    plain = await get(server, "/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "\nperdure_event_loop_lag_seconds " in plain.text
    open_metrics = await get(server, "/metrics?x=1", accept="application/openmetrics-text")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nothing HTTP/1.1", b"404"),
        (b"POST /livez HTTP/1.1", b"405"),
        (b"\x16\x03\x01", b"400"),
    ],
)
async def test_other_requests_are_refused(
    server: OpsServer, request_line: bytes, status: bytes
) -> None:
    answer = await raw(server, request_line + b"\r\n\r\n")
    assert answer.split(b" ")[1] == status


async def test_a_request_without_bound_gets_no_answer(server: OpsServer) -> None:
    assert await raw(server, b"GET /livez HTTP/1.1\r\nX: " + b"x" * MAX_HEAD_BYTES * 4) == b""


async def test_a_silent_connection_is_closed(
    server: OpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "READ_SECONDS", 0.01)
    assert await raw(server, b"GET /li") == b""


async def test_connections_over_the_limit_are_closed(
    server: OpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "MAX_CONNECTIONS", 0)
    assert await raw(server, b"") == b""


async def test_a_port_in_use_is_told_by_its_address(server: OpsServer) -> None:
    second = OpsServer("127.0.0.1", server.port)
    with pytest.raises(FailedPrecondition) as raised:
        await second.start()
    assert raised.value.reason is Reason.PORT_UNAVAILABLE
    assert raised.value.metadata["address"] == f"127.0.0.1:{server.port}"


async def test_the_ops_server_keeps_the_start_stop_contract(
    startstop_stress: Callable[[Service], Awaitable[None]],
) -> None:
    await startstop_stress(OpsServer("127.0.0.1", 0))
