"""What is refused before a handler has it, and what every refusal says of waiting."""

from __future__ import annotations

from typing import Any, cast

import grpc
import pytest
from google.protobuf import any_pb2
from perdure_runtime.errors import InvalidArgument, NotFound, Reason, Unavailable
from perdure_runtime.rpc.errors import from_call_error
from perdure_runtime.rpc.interceptor import PUSHBACK, CallRules
from perdure_testkit.echo import SERVICE, Echo, repeat


@pytest.mark.parametrize("shape", ["unary_stream", "stream_unary", "stream_stream"])
async def test_an_unknown_method_is_told_so_however_it_is_called(echo: Echo, shape: str) -> None:
    await echo.serve({"Echo": repeat})
    call: Any = getattr(echo.client().channel, shape)(f"/{SERVICE}/Ehco")
    answer = call(b"") if shape.startswith("unary") else call(iter([]))
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await (answer if shape.endswith("unary") else answer.read())
    assert from_call_error(raised.value).reason is Reason.METHOD_UNKNOWN


@pytest.mark.parametrize("bad", [b"\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe"])
async def test_bytes_that_are_no_message_are_told_to_be_none(echo: Echo, bad: bytes) -> None:
    """They are cut, or hold text that is not UTF-8."""

    async def read(request: Any, _: Any) -> bytes:
        return bytes(request.type_url, "utf-8")

    typed: Any = grpc.unary_unary_rpc_method_handler(
        cast(Any, read), request_deserializer=any_pb2.Any.FromString
    )
    generic = grpc.method_handlers_generic_handler(SERVICE, {"Read": typed})
    server = echo.server()
    server._services = {SERVICE: lambda on: on.add_generic_rpc_handlers((generic,))}
    await server.start()
    echo.stack.push_async_callback(server.stop)
    assert await echo.call("Read", any_pb2.Any(type_url="x").SerializeToString()) == b"x"
    with pytest.raises(InvalidArgument) as raised:
        await echo.call("Read", bad)
    assert raised.value.reason is Reason.MESSAGE_MALFORMED


async def test_a_failure_says_how_long_to_wait_where_waiting_helps(echo: Echo) -> None:
    async def fail(request: bytes, _: Any) -> bytes:
        raise Unavailable("not now", reason=Reason(request.decode()))

    async def refuse(request: bytes, _: Any) -> bytes:
        raise NotFound("no such run", reason=Reason.RUN_NOT_FOUND)

    await echo.serve({"Fail": fail, "Refuse": refuse}, rules=CallRules(advise=True))
    channel = echo.client().channel
    for name, sent, reason in (
        ("Fail", b"STORE_UNAVAILABLE", Reason.STORE_UNAVAILABLE),
        ("Refuse", b"", Reason.RUN_NOT_FOUND),
    ):
        method: Any = channel.unary_unary(f"/{SERVICE}/{name}")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await method(sent)
        error = from_call_error(raised.value)
        assert (error.reason, getattr(error, "retry_after", None)) == (reason, reason.wait)
        pushback = dict(raised.value.trailing_metadata() or ()).get(PUSHBACK)
        assert pushback == (None if reason.wait is None else str(round(reason.wait * 1000)))
