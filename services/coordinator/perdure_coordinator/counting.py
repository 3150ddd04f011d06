"""Counts what happened to runs and steps, from what was written, after its commit (R2)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_machine.changes import Changes
from perdure_machine.states import AttemptOutcome
from perdure_runtime.metrics import counter

RUNS_STARTED = counter("runs_started_total", "Runs that were started.")
RUNS_ENDED = counter("runs_ended_total", "Runs that ended.", ("status",))
ATTEMPTS = counter("attempts_total", "Acquisitions of steps that ended.", ("outcome",))


def count(changes: Sequence[Changes]) -> None:
    """Count the starts, ends and attempts of a committed transaction."""
    for one in changes:
        if one.before is None:
            RUNS_STARTED.inc()
        if one.run.ended:
            RUNS_ENDED.labels(str(one.run.run.status)).inc()
        for attempt in one.attempts:
            ATTEMPTS.labels(str(attempt.outcome)).inc()


def count_hand_overs(hand_overs: int) -> None:
    """Count the attempts that ended in hand-overs on remembered runs."""
    ATTEMPTS.labels(str(AttemptOutcome.COMPLETED)).inc(hand_overs)
