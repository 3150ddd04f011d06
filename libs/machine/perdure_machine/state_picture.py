"""Writes the page with the states of steps and runs from the table that the machine moves by.

`python -m perdure_machine.state_picture > docs/architecture/states.md`
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from perdure_machine.states import ENDED, RunStatus, StepStatus
from perdure_machine.transitions import TABLE, Move

HEAD = """# States

Generated from `transitions.TABLE` by `python -m perdure_machine.state_picture`; do not edit.

A move is data: the states it may start from and the one it leads to. `moved` refuses everything
else with `TRANSITION_REFUSED`, and the write repeats the check: it changes a step only where
status, fence and lease id are those that the decision saw ([events](events.md)). What each
unfinished state waits for is in [ways forward](ways_forward.md).
"""

CREATED = MappingProxyType(
    {
        StepStatus.QUEUED: "a task or an http call begins; a chained one is acquired in that event",
        StepStatus.WAITING: "a wait begins, or one for a signal that has not come yet",
        StepStatus.COMPLETED: (
            "a transform, a switch, an `emit` or a `finish`, computed in the same event; a wait"
            " for a signal that came before"
        ),
        StepStatus.SKIPPED: "its condition was false, or its join skips it",
        StepStatus.FAILED: "a `fail`, or its condition, input or value could not be computed",
        StepStatus.CANCELLED: "something it needs failed, or its run fails and it never began",
    }
)
"""The states in which a step first appears."""

MEANINGS: Mapping[Move, str] = MappingProxyType(
    {
        Move.ACQUIRE: "a worker takes it: AcquireLease, or chained to a report",
        Move.RELEASE: "its worker hands it back: ReleaseLease",
        Move.LOSE: "its lease ran out: ExpireLeases, counted as a loss",
        Move.COMPLETE: "the try ended well: ReportResult",
        Move.STAND: (
            "its call was performed and stands: by an earlier try of its whole, at AcquireLease; or"
            " as a person says: DecideEffect"
        ),
        Move.BACK_OFF: "the try failed and there will be another: ReportResult, or its timeout",
        Move.WAIT_OUT: "another's call under its key may be open: BeginEffect, ReportResult",
        Move.CALL_AGAIN: "that call is over: SettleEffect, or the end of its lease",
        Move.REVIEW: "nobody knows what became of its call, so a person is asked",
        Move.CATCH: "it failed, and an `output` of its `on_failure` stands in",
        Move.FAIL: (
            "no try will follow a failed one, a wait has no result, a person gave its call up, or"
            " its deadline passed"
        ),
        Move.RETRY: "the time for the next try has come: FireTimers",
        Move.RESTART: "the time for the next try of a whole has come: FireTimers",
        Move.END_WAIT: (
            "what it waited for has come: FireTimers, Signal; or all that it holds has ended"
        ),
        Move.CANCEL: (
            "its run is closed or stops: an internal event; a running one at its report or expiry"
        ),
        Move.PARK: "its run is paused: an internal event; a running one when it reports",
        Move.REFUSE: "its connection refused what it had, and a person must reconnect that",
        Move.QUEUE_AGAIN: (
            "its run was resumed, and it was queued: an internal event; or somebody knows what"
            " became of its call"
        ),
        Move.BACK_OFF_AGAIN: "its run was resumed, and it was backing off: an internal event",
        Move.WAIT_AGAIN: "its run was resumed, and it was waiting: an internal event",
    }
)

RUN_ENDS: Mapping[RunStatus, str] = MappingProxyType(
    {
        RunStatus.COMPLETED: "every node ended and no failure was uncaught, or a `finish`",
        RunStatus.FAILED: "a failure was not caught, and every node ended or none can run any more",
        RunStatus.CANCELLED: "CancelRun",
        RunStatus.TIMED_OUT: "it passed its `deadline` or `limits.age`: ExpireRuns",
    }
)


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *_steps(), *_runs()]) + "\n"


def _steps() -> Iterator[str]:
    yield "## Steps\n"
    yield from _diagram(_step_arrows())
    yield "\n| move | from | to | when |\n|---|---|---|---|"
    for move, transition in TABLE.items():
        sources = ", ".join(_in_order(transition.sources))
        yield f"| {move} | {sources} | {transition.target} | {MEANINGS[move]} |"
    yield "\nA step is created\n"
    yield from (f"- {status}: {when}" for status, when in CREATED.items())
    unreached = _in_order(StepStatus(status) for status in set(StepStatus) - _reached())
    if unreached:
        yield f"\nNo move leads to {', '.join(unreached)} in this version.\n"


def _runs() -> Iterator[str]:
    yield "## Runs\n"
    arrows = [f"[*] --> {RunStatus.RUNNING}: StartRun"]
    for status, when in RUN_ENDS.items():
        arrows += [f"{RunStatus.RUNNING} --> {status}: {when}", f"{status} --> [*]"]
    arrows.append(f"{RunStatus.FAILED} --> {RunStatus.RUNNING}: RetryRun")
    yield from _diagram(arrows)
    yield "\nA run that ended never leaves its state, but for a failed one that is retried."


def _step_arrows() -> Iterator[str]:
    for status in CREATED:
        yield f"[*] --> {status}"
    for move, transition in TABLE.items():
        for source in _in_order(transition.sources):
            yield f"{source} --> {transition.target}: {move}"
    for status in _in_order(ENDED):
        yield f"{status} --> [*]"


def _diagram(arrows: Iterable[str]) -> Iterator[str]:
    yield "```mermaid\nstateDiagram-v2"
    yield from (f"    {arrow}" for arrow in arrows)
    yield "```"


def _reached() -> set[StepStatus]:
    return {transition.target for transition in TABLE.values()} | set(CREATED)


def _in_order(statuses: Iterable[StepStatus]) -> list[StepStatus]:
    return sorted(statuses, key=list(StepStatus).index)


if __name__ == "__main__":
    sys.stdout.write(page())
