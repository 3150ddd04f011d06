"""One screen for one run: where it stands, what it waits for and until when, how it got there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

import click
from perdure_contracts.v1 import run_pb2

from perdure.cli.output import (
    clock_time,
    coloured,
    duration,
    moment,
    one_line,
    shown_status,
    table_lines,
    word,
)
from perdure.start_keys import OWN_KEY_PREFIX

MAX_NAMED = 3
"""Steps that the line on what a run waits for names; the others are counted."""

MAX_ERROR = 300
"""Characters of an error where it is told in full; what to do often stands at its end."""

LATE = timedelta(seconds=60)
"""A timer that is later than this, and a step queued for longer, are worth a doctor's look."""

REVIEW = "review"
"""What a step is parked on whose effect waits for a person."""

_UNFINISHED = (
    run_pb2.STEP_STATUS_QUEUED,
    run_pb2.STEP_STATUS_RUNNING,
    run_pb2.STEP_STATUS_BACKING_OFF,
    run_pb2.STEP_STATUS_WAITING,
    run_pb2.STEP_STATUS_PARKED,
)


def timeline(run: run_pb2.Run, now: datetime) -> list[str]:
    """Return the screen, line by line; `now` is the reader's clock."""
    return [
        *_heading(run, now),
        f"{click.style('now', dim=True)}      {standing(run, now)}",
        *_error(run.error if run.HasField("error") else None),
        "",
        *_steps(run, now),
        *_effects(run),
        *_payload("input", run.input),
        *_payload("output", run.output),
    ]


def child_lines(parent: run_pb2.Run, children: Iterable[run_pb2.Run]) -> list[str]:
    """Return the lines of a run's children, the nodes that they belong to named."""
    nodes = {step.step: step_name(step) for step in parent.steps}
    rows = (
        (
            child.run_id,
            nodes.get(child.parent_step, ""),
            f"{child.workflow} v{child.workflow_version}",
            coloured(word(child)),
            _short(child.error) if child.HasField("error") else "",
        )
        for child in children
    )
    return table_lines(("child", "node", "workflow", "status", "error"), rows)


def standing(run: run_pb2.Run, now: datetime) -> str:
    """Say in one line whether a run moves: what it waits for, and until when."""
    if run.HasField("ended_at"):
        took = moment(run.ended_at) - beginning(run)
        return f"{word(run).replace('_', ' ')} after {duration(took)}"
    if run.paused:
        return f"paused: nothing of it begins until `perdure run resume {run.run_id}`"
    if run.waits_for_run_id:
        return f"waits behind run {run.waits_for_run_id} for `{run.exclusive_key}`"
    if run.HasField("start_at") and not run.HasField("begun_at"):
        return f"begins {_instant(moment(run.start_at), now, 'at')}"
    unfinished = [step for step in run.steps if step.status in _UNFINISHED]
    waiting = [f"{_step_standing(step, now)}{_until_deadline(step)}" for step in unfinished]
    if not waiting and run.awaited_children:
        return f"every node has ended; its end waits for {run.awaited_children} child runs"
    if not waiting:
        return "no step is unfinished and the run is not ended: run `perdure doctor`"
    rest = len(waiting) - MAX_NAMED
    named = "; ".join(waiting[:MAX_NAMED])
    return f"{named}; and {rest} more" if rest > 0 else named


def beginning(run: run_pb2.Run) -> datetime:
    """Return when the run began; of one that has not, when it is to, else when it was made."""
    if run.HasField("begun_at"):
        return moment(run.begun_at)
    return moment(run.start_at if run.HasField("start_at") else run.created_at)


def step_name(step: run_pb2.Step) -> str:
    """Return a step's node with its scope path before it."""
    return f"{step.scope}.{step.node}" if step.scope else step.node


def _step_standing(step: run_pb2.Step, now: datetime) -> str:
    name = f"`{step_name(step)}`"
    match step.status:
        case run_pb2.STEP_STATUS_RUNNING:
            since = duration(now - moment(step.started_at))
            return f"{name} runs at {step.worker} for {since}"
        case run_pb2.STEP_STATUS_QUEUED:
            return f"{name} waits for a worker of {step.queue}{_queued_for(step, now)}"
        case run_pb2.STEP_STATUS_BACKING_OFF:
            cause = f" after {step.error.code}" if step.HasField("error") else ""
            return f"{name} is tried again {_due(step, now, 'at')}{cause}"
        case run_pb2.STEP_STATUS_WAITING if step.kind == "run":
            return f"{name} waits for {_child(step)}"
        case run_pb2.STEP_STATUS_WAITING if step.HasField("progress"):
            return f"{name} {progress(step, now)}"
        case run_pb2.STEP_STATUS_WAITING if step.HasField("waits_for"):
            endless = "" if step.HasField("deadline_at") else ", without a deadline"
            return f"{name} waits for {awaited(step.waits_for)}{endless}"
        case run_pb2.STEP_STATUS_WAITING:
            return f"{name} waits {_due(step, now, 'until')}"
        case _ if step.parked_on == REVIEW:
            return f"{name} waits for a person to say what became of its call"
        case _:
            return f"{name} is parked on {step.parked_on}"


def _child(step: run_pb2.Step) -> str:
    return f"run {step.child_run_id}" if step.child_run_id else "its run to start"


def progress(step: run_pb2.Step, now: datetime) -> str:
    """Say how far a step has come that holds a sub-graph."""
    counts = step.progress
    match step.kind:
        case "for_each":
            failed = f", {counts.failed} failed" if counts.failed else ""
            running = counts.begun - counts.ended
            of_all = f" of {counts.total}" if counts.total else ""
            return f"has ended {counts.ended}{of_all} items{failed}, {running} run"
        case "repeat" if step.HasField("due_at"):
            return f"begins pass {counts.begun} {_due(step, now, 'at')}"
        case "repeat":
            return f"is in pass {counts.begun - 1}"
        case _:
            return "is under way"


def _until_deadline(step: run_pb2.Step) -> str:
    if not step.HasField("deadline_at"):
        return ""
    return f", but not after {clock_time(moment(step.deadline_at))}"


def awaited(wait: run_pb2.SignalWait) -> str:
    """Return the signal that is waited for, in words."""
    return f"the signal {wait.name}" + (f" by the key {wait.key}" if wait.key else "")


def _queued_for(step: run_pb2.Step, now: datetime) -> str:
    since = step.attempts[-1].ended_at if step.attempts else step.created_at
    length = now - moment(since)
    advice = ": run `perdure doctor`" if length > LATE else ""
    return f" for {duration(length)}{advice}"


def _due(step: run_pb2.Step, now: datetime, preposition: str) -> str:
    if not step.HasField("due_at"):
        return "without a time: run `perdure doctor`"
    return _instant(moment(step.due_at), now, preposition)


def _instant(due: datetime, now: datetime, preposition: str) -> str:
    if now - due > LATE:
        return f"since {clock_time(due)}, which has passed: run `perdure doctor`"
    return f"{preposition} {clock_time(due)} (in {duration(due - now)})"


def _heading(run: run_pb2.Run, now: datetime) -> list[str]:
    title = click.style(f"{run.workflow} v{run.workflow_version}", bold=True)
    about = [_begun(run, now)]
    about += [f"key {run.start_key}"] if _is_given(run.start_key) else []
    about += [f"child of {run.parent_run_id}"] if run.parent_run_id else []
    about += [f"exclusive {run.exclusive_key}"] if run.exclusive_key else []
    if run.HasField("deadline_at"):
        about.append(f"deadline {clock_time(moment(run.deadline_at))}")
    about += [f"priority {run.priority}"] if run.priority else []
    about += [f"{key}={value}" for key, value in sorted(run.tags.items())]
    return [f"{run.run_id}  {title}  {coloured(shown_status(run))}", "  ".join(about)]


def _begun(run: run_pb2.Run, now: datetime) -> str:
    began = beginning(run)
    if run.HasField("start_at") and not run.HasField("begun_at"):
        return f"to begin {clock_time(began)}"
    return f"started {clock_time(began)} ({duration(now - began)} ago)"


def _is_given(start_key: str) -> bool:
    """Tell whether a person chose the key; one that the client made says nothing to anybody."""
    return bool(start_key) and not start_key.startswith(OWN_KEY_PREFIX)


def _error(error: run_pb2.RunError | None) -> list[str]:
    if error is None:
        return []
    place = f" at `{error.node}`" if error.node else ""
    kind = getattr(error, "class")
    label = click.style("error", fg="red")
    line = f"{label}    {error.code} ({kind}){place}: {one_line(error.message, MAX_ERROR)}"
    return [line, *(f"         {frame}" for frame in _last_frame(error))]


def _last_frame(error: run_pb2.RunError) -> list[str]:
    """Return where a handler raised, as its executor reported it; nothing where it did not."""
    try:
        details = json.loads(error.details or b"null")
    except (ValueError, RecursionError):
        return []
    text = details.get("traceback") if isinstance(details, dict) else None
    if not isinstance(text, str):
        return []
    starts = [at for at, row in enumerate(text.splitlines()) if row.lstrip().startswith("File ")]
    return [row.strip() for row in text.splitlines()[starts[-1] :][:2]] if starts else []


def _steps(run: run_pb2.Run, now: datetime) -> list[str]:
    if not run.steps:
        return ["no steps yet"]
    heading = ("#", "node", "kind", "status", "try", "fence", "worker", "took", "error")
    return table_lines(heading, (row for step in run.steps for row in _step_rows(step, now)))


def _step_rows(step: run_pb2.Step, now: datetime) -> Iterable[tuple[str, ...]]:
    for attempt in step.attempts[:-1] if _is_shown_by_step(step) else step.attempts:
        took = duration(moment(attempt.ended_at) - moment(attempt.started_at))
        error = _short(attempt.error) if attempt.HasField("error") else ""
        outcome = click.style(attempt.outcome.replace("_", " "), dim=True)
        yield "", "", "", outcome, "", str(attempt.fence), attempt.worker, took, error
    yield (
        str(step.step),
        step_name(step),
        step.kind,
        coloured(word(step)),
        str(_tries(step)) if step.queue else "",
        str(step.fence) if step.fence else "",
        step.worker or _last_worker(step),
        _took(step, now),
        _short(step.error, MAX_ERROR) if step.HasField("error") else "",
    )


def _tries(step: run_pb2.Step) -> int:
    """Return the try that a step is at; one that has failed for good has no next one."""
    if step.status == run_pb2.STEP_STATUS_FAILED:
        return max(step.failures, 1)
    return step.attempt


def _is_shown_by_step(step: run_pb2.Step) -> bool:
    """Tell whether the step's own line says what its last finished acquisition would."""
    return step.HasField("ended_at") and bool(step.attempts)


def _last_worker(step: run_pb2.Step) -> str:
    return step.attempts[-1].worker if _is_shown_by_step(step) else ""


def _took(step: run_pb2.Step, now: datetime) -> str:
    begun = step.started_at if step.HasField("started_at") else step.created_at
    if step.HasField("ended_at"):
        return duration(moment(step.ended_at) - moment(begun))
    return duration(now - moment(begun)) if step.status == run_pb2.STEP_STATUS_RUNNING else ""


def _short(error: run_pb2.RunError, width: int = 60) -> str:
    return one_line(f"{error.code}: {error.message}" if error.message else error.code, width)


def _effects(run: run_pb2.Run) -> list[str]:
    if not run.effects:
        return []
    rows = (
        (
            effect.key,
            effect.kind,
            coloured(effect.status),
            str(effect.calls),
            clock_time(moment(effect.begun_at)),
            clock_time(moment(effect.settled_at)) if effect.HasField("settled_at") else "",
        )
        for effect in run.effects
    )
    heading = ("effect", "kind", "status", "calls", "begun", "settled")
    return ["", *table_lines(heading, rows), *_reviews(run)]


def _reviews(run: run_pb2.Run) -> list[str]:
    keys = [effect.key for effect in run.effects if effect.status == "needs_review"]
    label = click.style("do this", bold=True)
    return [f"{label}   perdure effect show {key}" for key in keys]


def _payload(label: str, payload: bytes) -> list[str]:
    if not payload:
        return []
    text = one_line(payload.decode(errors="replace"), 400)
    return ["", f"{click.style(f'{label:<8}', dim=True)} {text}"]
