"""What is new in a run since the state before, one line per step that changed."""

from __future__ import annotations

from collections.abc import Iterator

import click
from perdure_contracts.v1 import run_pb2

from perdure.cli.output import clock_time, coloured, moment, one_line, word
from perdure.cli.timeline import awaited, step_name


class Changes:
    """Remembers how far each step was."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}

    def lines(self, run: run_pb2.Run) -> Iterator[str]:
        """Yield a line for each step that is new or changed, and one for the run's end."""
        for step in run.steps:
            stage = (step.status, step.fence)
            if self._seen.get(step.step) != stage:
                self._seen[step.step] = stage
                yield _step_line(step)
        if run.HasField("ended_at"):
            yield _line(clock_time(moment(run.ended_at)), "run", word(run), _error(run))


def _step_line(step: run_pb2.Step) -> str:
    if step.HasField("ended_at"):
        at = step.ended_at
    else:
        at = step.started_at if step.HasField("started_at") else step.created_at
    return _line(clock_time(moment(at)), step_name(step), word(step), _about(step))


def _about(step: run_pb2.Step) -> str:
    if step.status == run_pb2.STEP_STATUS_RUNNING:
        return f"{step.worker}, fence {step.fence}"
    if step.HasField("waits_for"):
        return f"for {awaited(step.waits_for)}"
    if step.HasField("due_at"):
        return f"until {clock_time(moment(step.due_at))} {_error(step)}".rstrip()
    return _error(step)


def _error(subject: run_pb2.Run | run_pb2.Step) -> str:
    if not subject.HasField("error"):
        return ""
    return one_line(f"{subject.error.code}: {subject.error.message}", 80)


def _line(time: str, name: str, status: str, about: str) -> str:
    return f"{click.style(time, dim=True)}  {name:<24}  {coloured(status)}  {about}".rstrip()
