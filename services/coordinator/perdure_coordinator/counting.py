"""Counts what happened to runs and steps, from what was written, after its commit (R2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from perdure_machine.changes import Changes
from perdure_machine.decide.hand_over import HandOver
from perdure_machine.decide.last_report import LastReport
from perdure_machine.decide.last_wait import LastWait
from perdure_machine.states import AttemptOutcome, RunStatus
from perdure_runtime.metrics import counter
from perdure_store.apply.batch import Plain

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


def count_plain(written: Collection[Plain]) -> int:
    """Count the attempts and the runs that ended in what was decided at once; return the latter."""
    runs = sum(isinstance(one, LastReport | LastWait) for one in written)
    attempts = sum(isinstance(one, HandOver | LastReport) for one in written)
    if attempts:
        ATTEMPTS.labels(str(AttemptOutcome.COMPLETED)).inc(attempts)
    if runs:
        RUNS_ENDED.labels(str(RunStatus.COMPLETED)).inc(runs)
    return runs
