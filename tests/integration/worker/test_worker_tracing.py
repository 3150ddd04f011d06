from collections.abc import Callable, Iterator, Sequence

import perdure
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from perdure_runtime import tracing

from tests.integration.worker.fake_engine import RUN_ID, Stage, grant

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


Spans = Callable[[], Sequence[ReadableSpan]]


@pytest.fixture
def spans() -> Iterator[Spans]:
    exporter = InMemorySpanExporter()
    traced = tracing.start_tracing("worker", "", 1.0, exporter=exporter)
    assert traced is not None

    def exported() -> Sequence[ReadableSpan]:
        traced.provider.force_flush()
        return exporter.get_finished_spans()

    yield exported
    traced.stop()


async def test_a_try_is_a_span_in_the_runs_trace_and_the_handler_goes_on_from_it(
    stage: Stage, spans: Spans
) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    async def work(given: object, ctx: perdure.HandlerContext) -> str:
        return ctx.traceparent

    await stage.start(handlers)
    report = await stage.one_result(grant(traceparent=TRACEPARENT))
    (process,) = [span for span in spans() if span.name == "process"]
    context = process.get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == TRACE
    assert process.parent is not None
    assert f"{process.parent.span_id:016x}" == PARENT
    assert report.output == f'"00-{TRACE}-{context.span_id:016x}-01"'.encode()
    assert process.attributes is not None
    assert process.attributes["perdure.run.id"] == RUN_ID
    assert process.attributes["perdure.outcome"] == "completed"
