"""OpenTelemetry tracing: off, and almost free, unless an endpoint is given.

The trace context of a run travels as a W3C `traceparent` text in rows and messages, since its hops
are hours and processes apart. No span is held open across a wait. The global tracer provider is
left alone: it belongs to whoever embeds us.

    with span("step attempt", parent=row.traceparent, attributes={"perdure.run.id": run}):
        ...                             # within, current_traceparent() is what to store or send
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import grpc
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

    from perdure_runtime.tracing_setup import UnrecordedSpan

Attribute = str | bool | int | float

_UNRECORDED = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][02468ace]")
"""A traceparent whose first hop decided that nobody records the trace: the flags' last bit is 0."""

REMEMBERED_TRACES = 1024
"""Traces that are looked at once although each step of their runs goes on with them."""


class Span(Protocol):
    """What may be said about the work in hand."""

    def set(self, name: str, value: Attribute) -> None:
        """Add an attribute."""

    @property
    def traceparent(self) -> str:
        """The W3C text that makes others continue here; empty when tracing is off."""


class _NoSpan:
    """The span of a process that does not trace; one object serves all."""

    traceparent = ""

    def set(self, name: str, value: Attribute) -> None:
        """Do nothing."""

    def __enter__(self) -> _NoSpan:
        return self

    def __exit__(self, *_: object) -> None:
        return None


_NO_SPAN = _NoSpan()


class Tracing:
    """The tracing of one process; made by `start_tracing`, ended by `stop`."""

    def __init__(self, provider: TracerProvider) -> None:
        from perdure_runtime.tracing_setup import UnrecordedSpan

        self.provider = provider
        self.unrecorded: type[UnrecordedSpan] = UnrecordedSpan
        self.tracer: Tracer = provider.get_tracer("perdure", version("perdure-runtime"))
        self._instrumentors: list[Any] = []

    def instrument(self) -> None:
        """Make spans for database and Redis commands that are part of a trace."""
        if find_spec("asyncpg"):
            from opentelemetry.instrumentation.asyncpg import AsyncPGInstrumentor

            self._instrumentors.append(AsyncPGInstrumentor())  # type: ignore[no-untyped-call]
        if find_spec("redis"):
            from opentelemetry.instrumentation.redis import RedisInstrumentor

            self._instrumentors.append(RedisInstrumentor())
        for instrumentor in self._instrumentors:
            instrumentor.instrument(tracer_provider=self.provider)

    def stop(self) -> None:
        """Send what is not yet sent, at most some seconds, and trace no more."""
        _state.active = None
        for instrumentor in self._instrumentors:
            instrumentor.uninstrument()
        self.provider.shutdown()


class _State:
    active: Tracing | None = None


_state = _State()


def start_tracing(
    service: str, endpoint: str, ratio: float, *, exporter: SpanExporter | None = None
) -> Tracing | None:
    """Trace to `endpoint` (OTLP gRPC) from now on; an empty endpoint is off and returns None.

    `ratio` is the share of new traces that are recorded; continued ones keep the decision of
    their first hop. `exporter` replaces the one for the endpoint.
    """
    if not endpoint and exporter is None:
        return None
    from perdure_runtime.tracing_setup import make_provider

    tracing = _state.active = Tracing(make_provider(service, endpoint, ratio, exporter))
    tracing.instrument()
    return tracing


def span(
    name: str,
    *,
    parent: str | None = None,
    kind: str = "internal",
    attributes: Mapping[str, Attribute] | None = None,
    links: Sequence[str] = (),
) -> AbstractContextManager[Span]:
    """Open a span for the length of a `with`; an exception that leaves it marks it failed.

    `parent` is a traceparent to continue, None for the current span, "" for a new trace. `kind` is
    internal, server, client, producer or consumer. `links` are traceparents.
    """
    if _state.active is None:
        return _NO_SPAN
    if parent is not None and not links and _is_unrecorded(parent):
        return _state.active.unrecorded(parent)
    from perdure_runtime.tracing_setup import open_span

    return open_span(_state.active.tracer, name, parent, kind, attributes, links)


def note_span(
    name: str,
    *,
    parent: str,
    began: int,
    attributes: Mapping[str, Attribute],
    error: Exception | None = None,
) -> None:
    """Make a span of work that is over, which no `with` could hold: it ends now.

    `began` is in nanoseconds since 1970, `error` what it failed with; the rest as for `span`.
    """
    if _state.active is None:
        return
    from perdure_runtime.tracing_setup import note_ended

    note_ended(_state.active.tracer, name, parent, began, attributes, error)


def is_recorded(traceparent: str) -> bool:
    """Tell whether a span that continues there may be recorded; else it may be left out."""
    return _state.active is not None and not _is_unrecorded(traceparent)


@lru_cache(maxsize=REMEMBERED_TRACES)
def _is_unrecorded(traceparent: str) -> bool:
    return _UNRECORDED.fullmatch(traceparent) is not None


def current_traceparent() -> str:
    """The W3C text of the current span; empty when there is none or tracing is off."""
    if _state.active is None:
        return ""
    from perdure_runtime.tracing_setup import traceparent_of_current

    return traceparent_of_current()


def log_fields() -> Mapping[str, str]:
    """`trace_id` of the current span, for log lines; empty when there is none."""
    text = current_traceparent()
    return {"trace_id": text.split("-")[1]} if text else {}


def quiet() -> AbstractContextManager[object]:
    """Within, libraries make no spans of their own; polling loops would bury the rest."""
    if _state.active is None:
        return _NO_SPAN
    from perdure_runtime.tracing_setup import Quiet

    return Quiet()


def server_interceptors(untraced: Collection[str]) -> tuple[grpc.aio.ServerInterceptor, ...]:
    """What a gRPC server needs to make spans; `untraced` are full method names to leave out."""
    if _state.active is None:
        return ()
    from perdure_runtime.tracing_setup import traced_server_interceptors

    return traced_server_interceptors(_state.active.provider, untraced)


def client_interceptors() -> tuple[grpc.aio.ClientInterceptor, ...]:
    """What a gRPC channel needs to make spans."""
    if _state.active is None:
        return ()
    from perdure_runtime.tracing_setup import traced_client_interceptors

    return traced_client_interceptors(_state.active.provider)
