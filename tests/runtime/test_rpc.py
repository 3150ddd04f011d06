import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
    reflection_pb2,
    reflection_pb2_grpc,
)
from perdure_runtime.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    Reason,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from perdure_runtime.fail_points import FailPointHit, Raise
from perdure_runtime.lifecycle import Service
from perdure_runtime.rpc import deadline
from perdure_runtime.rpc.errors import from_call_error
from perdure_runtime.rpc.interceptor import DRAIN_RETRY_SECONDS, CallRules
from perdure_testkit.echo import SERVICE, Echo, repeat


async def test_a_call_is_answered(echo: Echo) -> None:
    await echo.serve({"Echo": repeat})
    assert await echo.call("Echo", b"hello") == b"hello"


async def test_an_error_of_the_tree_arrives_as_it_was_raised(echo: Echo) -> None:
    violation = FieldViolation("name", "must not be empty")

    async def refuse(_: bytes, __: Any) -> bytes:
        raise InvalidArgument("bad", metadata={"limit": "1"}, violations=[violation])

    await echo.serve({"Refuse": refuse})
    with pytest.raises(InvalidArgument) as raised:
        await echo.call("Refuse")
    assert raised.value.violations == (violation,)
    assert raised.value.metadata["limit"] == "1"


async def test_an_unknown_error_is_logged_once_and_hidden(
    echo: Echo, logged: Callable[[str], list[dict[str, Any]]]
) -> None:
    async def fail(_: bytes, __: Any) -> bytes:
        raise ValueError("password=hunter2")

    await echo.serve({"Fail": fail})
    with pytest.raises(Internal) as raised:
        await echo.call("Fail")
    assert "hunter2" not in raised.value.message
    (line,) = logged("rpc.failed")
    assert line["method"] == f"/{SERVICE}/Fail"
    assert "hunter2" in line["stack"]


async def test_an_expected_error_is_quiet(
    echo: Echo, logged: Callable[[str], list[dict[str, Any]]]
) -> None:
    async def refuse(_: bytes, __: Any) -> bytes:
        raise FailedPrecondition("closed", reason=Reason.RUN_CLOSED)

    await echo.serve({"Refuse": refuse})
    with pytest.raises(FailedPrecondition):
        await echo.call("Refuse")
    assert logged("rpc.failed") == []


async def test_a_stream_that_fails_half_way_ends_with_its_error(echo: Echo) -> None:
    async def count(_: bytes, __: Any) -> AsyncIterator[bytes]:
        yield b"1"
        raise FailedPrecondition("closed", reason=Reason.RUN_CLOSED)

    await echo.serve(streams={"Count": count})
    method: Any = echo.client().channel.unary_stream(f"/{SERVICE}/Count")
    call = method(b"")
    assert await call.read() == b"1"
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_an_unknown_method_is_named_as_such(echo: Echo) -> None:
    await echo.serve({"Echo": repeat})
    with pytest.raises(Unimplemented) as raised:
        await echo.call("Ehco")
    assert raised.value.reason is Reason.METHOD_UNKNOWN
    assert raised.value.metadata["method"] == f"/{SERVICE}/Ehco"


async def test_the_server_enforces_its_own_limit_per_method(echo: Echo) -> None:
    async def hang(_: bytes, __: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    rules = CallRules(limits={f"/{SERVICE}/Hang": 0.02})
    await echo.serve({"Hang": hang}, rules=rules)
    with pytest.raises(DeadlineExceeded, match="not done within"):
        await echo.call("Hang")


async def test_what_is_left_of_the_deadline_is_known_inside(echo: Echo) -> None:
    async def left(_: bytes, __: Any) -> bytes:
        return str(deadline.remaining()).encode()

    await echo.serve({"Left": left}, rules=CallRules(default_limit=30.0))
    assert (
        2.0 < float(await echo.call("Left", timeout=3.0)) <= 3.1
    )  # gRPC rounds the time up as it sends it
    assert 29.0 < float(await echo.call("Left", timeout=300.0)) <= 30.0


async def test_a_call_made_for_a_call_does_not_outlive_it(echo: Echo) -> None:
    async def hang(_: bytes, __: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    await echo.serve({"Hang": hang}, rules=CallRules(default_limit=None))
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        async with deadline.within(0.05):
            await echo.call("Hang", timeout=60.0)
    assert time.monotonic() - began < 5


async def test_a_time_out_of_the_handler_itself_is_not_taken_for_the_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with deadline.within(5.0):
            raise TimeoutError
    assert deadline.remaining() is None


async def test_f091_a_request_over_the_limit_fails_at_once(echo: Echo) -> None:
    await echo.serve({"Echo": repeat})
    with pytest.raises(InvalidArgument) as raised:
        await echo.call("Echo", b"x" * (4 * 1024 * 1024 + 1), timeout=30.0)
    assert raised.value.reason is Reason.PAYLOAD_TOO_LARGE


async def test_f091_an_answer_over_the_limit_fails_at_once(echo: Echo) -> None:
    async def large(_: bytes, __: Any) -> bytes:
        return b"x" * (4 * 1024 * 1024 + 1)

    await echo.serve({"Large": large})
    with pytest.raises(InvalidArgument) as raised:
        await echo.call("Large", timeout=30.0)
    assert raised.value.reason is Reason.PAYLOAD_TOO_LARGE


async def test_calls_over_the_limit_of_the_server_are_refused(echo: Echo) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    async def hold(request: bytes, _: Any) -> bytes:
        began.set()
        await release.wait()
        return request

    await echo.serve({"Hold": hold}, max_concurrent_rpcs=1)
    held = asyncio.create_task(echo.call("Hold", b"held"))
    await began.wait()
    method = echo.method(echo.client(), "Hold")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await method(b"", timeout=5.0)
    error = from_call_error(raised.value)
    assert isinstance(error, ResourceExhausted)
    assert (error.reason, error.metadata["scope"]) == (Reason.RATE_LIMITED, "server")
    assert error.retry_after
    release.set()
    assert await held == b"held"


async def test_a_draining_server_refuses_new_calls_and_finishes_old_ones(echo: Echo) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    async def hold(request: bytes, _: Any) -> bytes:
        began.set()
        await release.wait()
        raise FailedPrecondition("told at the end", reason=Reason.RUN_CLOSED)

    server = await echo.serve(
        {"Hold": hold, "Echo": repeat, "Settle": repeat},
        rules=CallRules(while_draining=frozenset({f"/{SERVICE}/Settle"})),
    )
    held = asyncio.create_task(echo.call("Hold"))
    await began.wait()
    await server.drain()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await echo.method(echo.client(), "Echo")(b"", timeout=5.0)
    refused = from_call_error(raised.value)
    assert (type(refused), refused.reason) == (Unavailable, Reason.DRAINING)
    assert cast(Unavailable, refused).retry_after == DRAIN_RETRY_SECONDS
    assert await echo.call("Settle", b"x") == b"x"
    stopping = asyncio.create_task(server.stop())
    await asyncio.wait([stopping], timeout=0.05)
    release.set()
    with pytest.raises(FailedPrecondition, match="told at the end"):
        await held
    await stopping


async def test_health_tells_the_server_and_each_service_and_the_drain(echo: Echo) -> None:
    server = await echo.serve({"Echo": repeat})
    stub = health_pb2_grpc.HealthStub(echo.client().channel)
    status = health_pb2.HealthCheckResponse

    async def check(name: str) -> int:
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        return int(answer.status)

    assert [await check(""), await check(SERVICE)] == [status.SERVING] * 2
    await server.drain()
    assert [await check(""), await check(SERVICE)] == [status.NOT_SERVING] * 2


async def test_an_open_health_watch_does_not_hold_up_the_stop(echo: Echo) -> None:
    server = await echo.serve({"Echo": repeat}, grace=60.0)
    stub = health_pb2_grpc.HealthStub(echo.client().channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    async with asyncio.timeout(10):
        await server.stop()
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_long_poll_that_watches_the_drain_is_answered_at_once(echo: Echo) -> None:
    began = asyncio.Event()

    async def poll(_: bytes, __: Any) -> bytes:
        began.set()
        await server.draining.wait()
        return b"empty"

    server = await echo.serve({"Poll": poll}, grace=60.0)
    polling = asyncio.create_task(echo.call("Poll", timeout=60.0))
    await began.wait()
    await server.stop()
    assert await polling == b"empty"


async def test_a_call_that_outlasts_the_grace_is_ended(echo: Echo) -> None:
    began = asyncio.Event()

    async def hang(_: bytes, __: Any) -> bytes:
        began.set()
        await asyncio.Event().wait()
        return b""

    server = await echo.serve({"Hang": hang}, grace=0.01)
    method = echo.method(echo.client(), "Hang")
    hanging = asyncio.ensure_future(method(b"", timeout=60.0))
    await began.wait()
    async with asyncio.timeout(10):
        await server.stop()
    with pytest.raises(grpc.aio.AioRpcError):
        await hanging


async def test_a_cancelled_stop_ends_calls_in_flight_at_once(echo: Echo) -> None:
    began = asyncio.Event()

    async def hang(_: bytes, __: Any) -> bytes:
        began.set()
        await asyncio.Event().wait()
        return b""

    server = await echo.serve({"Hang": hang}, grace=60.0)
    method = echo.method(echo.client(), "Hang")
    hanging = asyncio.ensure_future(method(b"", timeout=60.0))
    await began.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await server.stop()
    with pytest.raises(grpc.aio.AioRpcError):
        await hanging


async def list_services(echo: Echo) -> set[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(echo.client().channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="*")
    call = stub.ServerReflectionInfo(iter([request]))
    answer = await call.read()
    return {service.name for service in answer.list_services_response.service}


async def test_reflection_lists_the_services(echo: Echo) -> None:
    await echo.serve({"Echo": repeat})
    assert SERVICE in await list_services(echo)


async def test_reflection_has_a_switch(echo: Echo) -> None:
    await echo.serve({"Echo": repeat}, reflection=False)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await list_services(echo)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_port_in_use_is_told_by_its_address(echo: Echo) -> None:
    first = await echo.serve({"Echo": repeat}, address="127.0.0.1:0")
    second = echo.server({"Echo": repeat}, address=f"127.0.0.1:{first.port}")
    with pytest.raises(FailedPrecondition) as raised:
        await second.start()
    assert raised.value.reason is Reason.PORT_UNAVAILABLE
    assert raised.value.metadata["address"].endswith(str(first.port))


async def test_a_server_keeps_the_start_stop_contract(
    echo: Echo, startstop_stress: Callable[[Service], Awaitable[None]]
) -> None:
    await startstop_stress(echo.server({"Echo": repeat}))


async def test_a_server_that_comes_late_is_reached_within_the_deadline(echo: Echo) -> None:
    call = asyncio.create_task(echo.call("Echo", b"x", timeout=10.0))
    await asyncio.wait([call], timeout=0.02)
    await echo.serve({"Echo": repeat})
    assert await call == b"x"


async def test_a_server_that_never_comes_is_unavailable(echo: Echo) -> None:
    with pytest.raises(Unavailable) as raised:
        await echo.call("Echo", timeout=0.5)
    assert raised.value.reason is Reason.PEER_UNAVAILABLE


async def test_only_unavailable_is_sent_again(echo: Echo) -> None:
    seen = list[bytes]()

    async def flaky(request: bytes, _: Any) -> bytes:
        seen.append(request)
        if len(seen) < 3:
            raise Unavailable("blink", reason=Reason.STORE_UNAVAILABLE)
        raise FailedPrecondition("closed", reason=Reason.RUN_CLOSED)

    await echo.serve({"Flaky": flaky})
    with pytest.raises(FailedPrecondition):
        await echo.call("Flaky", b"x")
    assert seen == [b"x"] * 3


async def test_f043_a_wait_that_the_server_asks_for_is_kept(echo: Echo) -> None:
    seen = list[float]()

    async def busy(request: bytes, _: Any) -> bytes:
        seen.append(time.monotonic())
        if len(seen) == 1:
            raise Unavailable("later", reason=Reason.STORE_UNAVAILABLE, retry_after=0.1)
        return request

    await echo.serve({"Busy": busy})
    await echo.call("Busy")
    assert seen[1] - seen[0] >= 0.099


async def test_every_try_passes_the_fail_point(echo: Echo) -> None:
    seen = list[bytes]()

    async def note(request: bytes, _: Any) -> bytes:
        seen.append(request)
        return request

    await echo.serve({"Note": note})
    client, point = echo.client(), echo.points.declare("test.note")
    method = echo.method(client, "Note")
    with echo.points.arm("test.note", "before", Raise()), pytest.raises(FailPointHit):
        await client.call(method, b"x", timeout=0.02, fail_point=point)
    assert seen == []


async def test_a_lost_answer_makes_the_client_send_again(echo: Echo) -> None:
    seen = list[bytes]()

    async def note(request: bytes, _: Any) -> bytes:
        seen.append(request)
        return request

    class LoseTwo(Raise):
        async def run(self, point: str) -> None:
            if len(seen) <= 2:
                raise FailPointHit(point)

    await echo.serve({"Note": note})
    client, point = echo.client(), echo.points.declare("test.note")
    with echo.points.arm("test.note", "after", LoseTwo()):
        answer = await client.call(echo.method(client, "Note"), b"x", timeout=5.0, fail_point=point)
    assert answer == b"x"
    assert seen == [b"x"] * 3


async def test_a_channel_speaks_to_a_port_by_name(echo: Echo) -> None:
    server = await echo.serve({"Echo": repeat}, address="127.0.0.1:0")
    client = echo.client(f"localhost:{server.port}")
    point = echo.points.declare("test.by_name")
    method = echo.method(client, "Echo")
    assert await client.call(method, b"x", timeout=5.0, fail_point=point) == b"x"
