"""The metrics of tries, told together: a step would wait for those of the step before."""

from __future__ import annotations

import asyncio

from perdure_runtime.metrics import counter, histogram

GATHER_SECONDS = 0.1
"""How late a metric may be told; far less than from one look at it to the next."""

ATTEMPTS = counter(
    "worker_attempts_total", "Tries by kind and by how they ended.", ("kind", "outcome")
)
SECONDS = histogram("worker_attempt_seconds", "How long tries took.", ("kind",))


class Tallies:
    """Counts tries; for one event loop."""

    def __init__(self) -> None:
        self._tries: list[tuple[str, str, float | None]] = []

    def note(self, kind: str, outcome: str, seconds: float | None) -> None:
        """Count a try; `seconds` is how long it took, None if it was ended before its own end."""
        if not self._tries:
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._tell)
        self._tries.append((kind, outcome, seconds))

    def _tell(self) -> None:
        tries, self._tries = self._tries, []
        for kind, outcome, seconds in tries:
            ATTEMPTS.labels(kind, outcome).inc()
            if seconds is not None:
                SECONDS.labels(kind).observe(seconds)
