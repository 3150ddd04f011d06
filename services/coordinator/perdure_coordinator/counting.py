"""Counts what happened to runs and steps, from what was written, after its commit (R2)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from perdure_machine.changes import Changes
from perdure_machine.decide.hand_over import HandOver
from perdure_machine.decide.last_report import LastReport
from perdure_machine.decide.last_wait import LastWait
from perdure_machine.states import AttemptOutcome, RunStatus
from perdure_runtime.metrics import counter
from perdure_store.apply.batch import Plain

COUNTED_SECONDS = 0.1
"""How long what was plainly written waits to be counted."""

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


class PlainCounts:
    """Counts what was decided at once, of some time together: no answer waits for it."""

    def __init__(self) -> None:
        self._attempts = 0
        self._runs = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, written: Collection[Plain]) -> int:
        """Note the attempts and the runs that ended in it, to be counted; return the latter."""
        runs = sum(isinstance(one, LastReport | LastWait) for one in written)
        self._runs += runs
        self._attempts += sum(isinstance(one, HandOver | LastReport) for one in written)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COUNTED_SECONDS, self._count)
        return runs

    def _count(self) -> None:
        self._timer = None
        ATTEMPTS.labels(str(AttemptOutcome.COMPLETED)).inc(self._attempts)
        RUNS_ENDED.labels(str(RunStatus.COMPLETED)).inc(self._runs)
        self._attempts = self._runs = 0
