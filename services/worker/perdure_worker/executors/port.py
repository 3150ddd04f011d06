"""The one thing that every executor can do: run one try of a step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from perdure import Cancellation
from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant

from perdure_worker.outcome import Outcome


@dataclass(frozen=True, slots=True)
class TryContext:
    """How long a try has and whether it should stop.

    `deadline` is an instant on the monotonic clock, None if the definition sets no timeout. While
    `open_calls` holds something, an outside call goes on although the step's lease is lost.
    `traceparent` is the W3C trace context of the try, empty when the run is not traced.
    """

    deadline: float | None
    cancelled: Cancellation
    open_calls: set[str] = field(default_factory=set)
    traceparent: str = ""

    def until(self, seconds: float) -> float:
        """Return the deadline, or where there is none the instant `seconds` from here."""
        return time.monotonic() + seconds if self.deadline is None else self.deadline


class Executor(Protocol):
    """Runs tries; it never repeats one, since only `decide` decides retries."""

    keeps_deadline: ClassVar[bool]
    """Whether `run` itself returns by the deadline; else whoever calls it watches the time."""

    async def run(self, grant: StepGrant, context: TryContext) -> Outcome:
        """Run one try and say how it ended.

        Being cancelled asks for an early end; it ends, with CancelledError, when nothing of the
        try runs any more.
        """
