import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.asyncpg import AsyncPGInstrumentor
from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from perdure_runtime import tracing
from perdure_runtime.fail_points import Registry
from perdure_runtime.rpc.client import open_client
from perdure_runtime.rpc.server import RpcServer, ServerSettings
from perdure_testkit.otlp import Collector, running_collector

REMOTE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
REMOTE_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SERVICE = "perdure.test.v1.TracedService"


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with running_collector() as collector:
        yield collector


class Traced:
    """Tracing to a real collector; `spans()` ends it and returns what arrived, by name."""

    def __init__(self, collector: Collector, ratio: float = 1.0) -> None:
        self.collector = collector
        self._active = tracing.start_tracing("relay", collector.endpoint, ratio)

    async def spans(self) -> dict[str, Span]:
        await self.stop()
        return {received.name: received.span for received in self.collector.spans}

    async def stop(self) -> None:
        if self._active is not None:
            active, self._active = self._active, None
            # The exporter blocks; the collector answers in this loop.
            await asyncio.to_thread(active.stop)


@pytest.fixture
async def traced(collector: Collector) -> AsyncIterator[Traced]:
    made = Traced(collector)
    yield made
    await made.stop()


def test_off_is_off_and_costs_one_shared_object() -> None:
    assert tracing.start_tracing("relay", "", 1.0) is None
    first, second = tracing.span("a", parent=REMOTE), tracing.span("b")
    assert first is second
    with first as span:
        span.set("x", 1)
        assert (span.traceparent, tracing.current_traceparent()) == ("", "")
    assert tracing.log_fields() == {}
    assert tracing.server_interceptors(()) == ()
    assert tracing.client_interceptors() == ()


async def test_a_span_continues_the_trace_of_a_stored_row(traced: Traced) -> None:
    with tracing.span("attempt", parent=REMOTE, kind="consumer", attributes={"run": "r"}) as span:
        stored = span.traceparent
        assert tracing.current_traceparent() == stored
        assert tracing.log_fields() == {"trace_id": REMOTE_TRACE}
    with tracing.span("resume", parent=stored):
        pass
    spans = await traced.spans()
    attempt, resume = spans["attempt"], spans["resume"]
    assert attempt.trace_id.hex() == resume.trace_id.hex() == REMOTE_TRACE
    assert attempt.parent_span_id.hex() == "00f067aa0ba902b7"
    assert resume.parent_span_id == attempt.span_id
    assert attempt.kind == Span.SPAN_KIND_CONSUMER
    assert {received.service for received in traced.collector.spans} == {"perdure-relay"}


async def test_f134_a_new_trace_links_to_the_one_before(traced: Traced) -> None:
    with tracing.span("outer"), tracing.span("segment", parent="", links=[REMOTE, "garbage"]):
        pass
    spans = await traced.spans()
    assert spans["segment"].trace_id != spans["outer"].trace_id
    assert spans["segment"].parent_span_id == b""
    assert [link.trace_id.hex() for link in spans["segment"].links] == [REMOTE_TRACE]


async def test_an_error_that_leaves_a_span_marks_it(traced: Traced) -> None:
    with pytest.raises(KeyError), tracing.span("fails"):
        raise KeyError
    assert (await traced.spans())["fails"].status.code == 2


async def test_a_span_of_work_that_is_over_lies_in_its_trace_and_in_its_time(
    traced: Traced,
) -> None:
    tracing.note_span("done", parent=REMOTE, began=1_000_000_000, attributes={"run": "r"})
    tracing.note_span("failed", parent=REMOTE, began=1, attributes={}, error=KeyError("x"))
    spans = await traced.spans()
    done, failed = spans["done"], spans["failed"]
    assert (done.trace_id.hex(), done.parent_span_id.hex()) == (REMOTE_TRACE, REMOTE.split("-")[2])
    assert done.start_time_unix_nano == 1_000_000_000 < done.end_time_unix_nano
    assert (done.status.code, failed.status.code) == (0, 2)
    assert failed.events[0].name == "exception"


async def test_within_quiet_drivers_make_no_spans_and_ours_go_on(traced: Traced) -> None:
    with tracing.span("outer"), tracing.quiet():
        assert not is_instrumentation_enabled()
        with tracing.span("inner"):
            pass
    assert is_instrumentation_enabled()
    with tracing.quiet():
        assert not is_instrumentation_enabled()
    assert is_instrumentation_enabled()
    spans = await traced.spans()
    assert spans["inner"].parent_span_id == spans["outer"].span_id


async def test_the_decision_of_the_first_hop_is_kept(collector: Collector) -> None:
    traced = Traced(collector, ratio=0.0)
    with tracing.span("new"):
        pass
    with tracing.span("continued", parent=REMOTE):
        pass
    with tracing.span("left out", parent=REMOTE[:-1] + "0"):
        pass
    assert set(await traced.spans()) == {"continued"}


@pytest.mark.parametrize("flags", ["00", "02"], ids=["no flags", "a random id"])
async def test_what_goes_on_in_an_unrecorded_trace_is_not_recorded_and_tells_of_it(
    traced: Traced, flags: str
) -> None:
    left_out = REMOTE[:-2] + flags
    with tracing.span("left out", parent=left_out) as span:
        span.set("x", 1)
        assert span.traceparent == tracing.current_traceparent() == left_out
        assert tracing.log_fields() == {"trace_id": REMOTE_TRACE}
        with tracing.span("within"):
            within = tracing.current_traceparent()
        assert (within.split("-")[1], within.split("-")[3]) == (REMOTE_TRACE, flags)
    assert tracing.current_traceparent() == ""
    with tracing.span("after"):
        pass
    assert set(await traced.spans()) == {"after"}


async def test_a_client_span_never_begins_a_trace(traced: Traced) -> None:
    with tracing.span("poll", kind="client"):
        pass
    with tracing.span("send", kind="client", links=[REMOTE]):
        pass
    assert set(await traced.spans()) == {"send"}


async def test_drivers_are_instrumented_while_tracing_is_on(traced: Traced) -> None:
    instrumentors = AsyncPGInstrumentor(), RedisInstrumentor()  # type: ignore[no-untyped-call]
    assert [one.is_instrumented_by_opentelemetry for one in instrumentors] == [True, True]
    await traced.stop()
    assert [one.is_instrumented_by_opentelemetry for one in instrumentors] == [False, False]


def test_a_process_that_does_not_trace_does_not_load_the_sdk() -> None:
    script = (
        "import sys, perdure_runtime.process, perdure_runtime.rpc.server, "
        "perdure_runtime.rpc.client; print([m for m in sys.modules if 'opentelemetry' in m])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


async def test_the_global_provider_is_left_alone(traced: Traced) -> None:
    assert traced.collector is not None
    assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"


async def echo(_request: bytes, _: Any) -> bytes:
    return tracing.current_traceparent().encode()


async def test_a_trace_goes_through_a_call_unless_it_is_left_out(
    traced: Traced, tmp_path: Path
) -> None:
    batched = f"/{SERVICE}/Batched"
    handler: Any = grpc.unary_unary_rpc_method_handler(echo)
    generic = grpc.method_handlers_generic_handler(SERVICE, {"Traced": handler, "Batched": handler})
    server = RpcServer(
        {SERVICE: lambda server: server.add_generic_rpc_handlers((generic,))},
        ServerSettings(f"unix:{tmp_path}/grpc", untraced=frozenset({batched})),
    )
    point = Registry().declare("test.traced")
    async with AsyncExitStack() as stack:
        await server.start()
        stack.push_async_callback(server.stop)
        client = open_client(f"unix:{tmp_path}/grpc")
        stack.push_async_callback(client.stop)
        with tracing.span("caller", parent=REMOTE):
            method: Any = client.channel.unary_unary(f"/{SERVICE}/Traced")
            inside = await client.call(method, b"", timeout=5, fail_point=point)
            method = client.batches.unary_unary(batched)
            left_out = await client.call(method, b"", timeout=5, fail_point=point)
    assert inside.decode().split("-")[1] == REMOTE_TRACE
    assert left_out == b""
    spans = await traced.spans()
    assert not any("Batched" in name for name in spans)
    assert any("Traced" in name for name in spans)
