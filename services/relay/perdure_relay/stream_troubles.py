"""Waiting out a Redis that refuses a stream: its state, not the rows', so the rows stay ready."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.errors import PerdureError
from perdure_runtime.logs import log, log_failure
from perdure_streams.errors import trouble_of
from perdure_streams.names import StreamName

from perdure_relay.metrics import REFUSED

STREAM_BACKOFF = Backoff(base=0.1, factor=2.0, cap=5.0)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Trouble:
    kind: str
    failures: int
    until: float


class StreamTroubles:
    """Which streams are left alone, and until when on the process clock."""

    def __init__(self, clock: Clock, jitter: Callable[[], float]) -> None:
        self._clock = clock
        self._jitter = jitter
        self._streams: dict[StreamName, _Trouble] = {}

    def is_resting(self, stream: StreamName) -> bool:
        """Whether the stream is left alone for now."""
        trouble = self._streams.get(stream)
        return trouble is not None and self._clock.monotonic() < trouble.until

    def failed(self, stream: StreamName, error: PerdureError) -> None:
        """Leave the stream alone for a growing, jittered time; a new kind of trouble is logged."""
        before = self._streams.get(stream)
        failures = 1 if before is None else before.failures + 1
        kind = trouble_of(error)
        pause = STREAM_BACKOFF.seconds(failures, self._jitter())
        self._streams[stream] = _Trouble(kind, failures, self._clock.monotonic() + pause)
        REFUSED.labels(stream.queue.lane, kind).inc()
        if before is None or before.kind != kind:
            log_failure(_logger, "relay.stream_refused", error, stream=str(stream))

    def succeeded(self, stream: StreamName) -> None:
        """Forget the stream's trouble."""
        trouble = self._streams.pop(stream, None)
        if trouble is not None:
            log(_logger, "relay.stream_taken", stream=str(stream), failures=trouble.failures)
