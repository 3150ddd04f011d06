"""What needs the OpenTelemetry SDK; imported only when tracing is on, since it costs memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from functools import lru_cache

import grpc
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.grpc import aio_client_interceptors, aio_server_interceptor
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

from perdure_runtime.tracing import REMEMBERED_TRACES, Attribute

EXPORT_TIMEOUT_SECONDS = 5

_PLUMBING = ("/grpc.health.", "/grpc.reflection.")
_W3C = TraceContextTextMapPropagator()
_NOTHING = Context()


def _made_quiet() -> Context:
    before = attach(_NOTHING)
    try:
        with suppress_instrumentation():
            return get_current()
    finally:
        detach(before)


_QUIET = _made_quiet()


class RootSampler(Sampler):
    """Decides on new traces: a share of them, and none that a client span would begin.

    A database command or a call outside of any span belongs to a polling loop or a batch; as a
    trace of its own it says nothing and buries the rest.
    """

    def __init__(self, ratio: float) -> None:
        self._share = TraceIdRatioBased(ratio)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Return the decision for a span without a parent."""
        if kind is SpanKind.CLIENT and not links:
            return SamplingResult(Decision.DROP, None, trace_state)
        return self._share.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )

    def get_description(self) -> str:
        """Return how the SDK names this sampler."""
        return f"RootSampler({self._share.get_description()})"


def make_provider(
    service: str, endpoint: str, ratio: float, exporter: SpanExporter | None
) -> TracerProvider:
    """Return a provider of its own that exports in the background; the global one stays."""
    provider = TracerProvider(
        sampler=ParentBased(RootSampler(ratio)),
        resource=Resource.create({"service.name": f"perdure-{service}"}),
        shutdown_on_exit=False,
    )
    exporter = exporter or OTLPSpanExporter(
        endpoint=endpoint,
        insecure=not endpoint.startswith("https://"),
        timeout=EXPORT_TIMEOUT_SECONDS,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class OpenSpan:
    """A span that is being recorded, or dropped by the sampler."""

    def __init__(self, inner: trace.Span) -> None:
        self._inner = inner

    def set(self, name: str, value: Attribute) -> None:
        """Add an attribute."""
        self._inner.set_attribute(name, value)

    @property
    def traceparent(self) -> str:
        """The W3C text that makes others continue here."""
        return _text_of(self._inner.get_span_context())


@contextmanager
def open_span(
    tracer: trace.Tracer,
    name: str,
    parent: str | None,
    kind: str,
    attributes: Mapping[str, Attribute] | None,
    links: Sequence[str],
) -> Iterator[OpenSpan]:
    """Open a span as `tracing.span` describes."""
    with tracer.start_as_current_span(
        name,
        context=None if parent is None else _context_of(parent),
        kind=SpanKind[kind.upper()],
        attributes=dict(attributes or {}),
        links=[Link(found) for text in links if (found := _span_context(text)).is_valid],
    ) as inner:
        yield OpenSpan(inner)


def note_ended(
    tracer: trace.Tracer,
    name: str,
    parent: str,
    began: int,
    attributes: Mapping[str, Attribute],
    error: Exception | None,
) -> None:
    """Make an ended span as `tracing.note_span` describes."""
    noted = tracer.start_span(
        name, context=_context_of(parent), attributes=dict(attributes), start_time=began
    )
    if error is not None:
        noted.record_exception(error)
        noted.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    noted.end()


class UnrecordedSpan:
    """A span in a trace that nobody records: what is within keeps the decision of its parent.

    It has no identity of its own, which makes it several times cheaper than a dropped span.
    """

    __slots__ = ("_context", "_token", "traceparent")

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent
        self._context = _unrecorded(traceparent)
        self._token: Token[Context] | None = None

    def set(self, name: str, value: Attribute) -> None:
        """Do nothing."""

    def __enter__(self) -> UnrecordedSpan:
        self._token = attach(self._context)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        detach(self._token)


@lru_cache(maxsize=REMEMBERED_TRACES)
def _unrecorded(traceparent: str) -> Context:
    _, trace_id, span_id, flags = traceparent.split("-")
    parent = trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16))
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), _NOTHING)


class Quiet:
    """A part of the work in which instrumented libraries make no spans.

    Most often nothing else is set by then, and the context is one that was made before.
    """

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        now = get_current()
        self._token = attach(Context({**now, **_QUIET}) if now else _QUIET)

    def __exit__(self, *_: object) -> None:
        detach(self._token)


def traceparent_of_current() -> str:
    """Return the W3C text of the current span, or nothing."""
    return _text_of(trace.get_current_span().get_span_context())


def traced_server_interceptors(
    provider: TracerProvider, untraced: Collection[str]
) -> tuple[grpc.aio.ServerInterceptor, ...]:
    """Return the interceptor that makes server spans, except of plumbing and of `untraced`."""
    make: Callable[..., grpc.aio.ServerInterceptor] = aio_server_interceptor
    return (make(tracer_provider=provider, filter_=_traces(untraced)),)


def traced_client_interceptors(
    provider: TracerProvider,
) -> tuple[grpc.aio.ClientInterceptor, ...]:
    """Return the interceptors that make client spans, except of plumbing."""
    make: Callable[..., Sequence[grpc.aio.ClientInterceptor]] = aio_client_interceptors
    return tuple(make(tracer_provider=provider, filter_=_traces(())))


def _traces(untraced: Collection[str]) -> Callable[[object], bool]:
    left_out = frozenset(untraced)

    def traces(details: object) -> bool:
        method = getattr(details, "method", "")
        name = method.decode() if isinstance(method, bytes) else str(method)
        return name not in left_out and not name.startswith(_PLUMBING)

    return traces


def _text_of(span: trace.SpanContext) -> str:
    if not span.is_valid:
        return ""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def _context_of(text: str) -> Context:
    return _W3C.extract({"traceparent": text}, Context())


def _span_context(text: str) -> trace.SpanContext:
    return trace.get_current_span(_context_of(text)).get_span_context()
