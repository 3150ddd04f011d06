"""Runs, their steps, attempts and effects as messages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from perdure_contracts.v1 import run_pb2
from perdure_machine.node_error import decode_error
from perdure_store.reads.rows import (
    AttemptRow,
    EffectRow,
    PublishedRow,
    RunRow,
    RunSnapshot,
    ScopeRow,
    StepRow,
)

from perdure_ingest.start_keys import shown_start_key
from perdure_ingest.views.instants import timestamp


def listed_run(row: RunRow) -> run_pb2.Run:
    """Show a run as lists do: without payloads, steps and effects."""
    return run_pb2.Run(
        run_id=str(row.run_id),
        workflow=row.workflow,
        workflow_version=row.workflow_version,
        status=run_pb2.RunStatus.Value(f"RUN_STATUS_{row.status.upper()}"),
        error=error_message(row.error),
        start_key=shown_start_key(row.start_key),
        tags=json.loads(row.tags),
        priority=row.priority,
        created_at=timestamp(row.created_at),
        ended_at=timestamp(row.ended_at),
        deadline_at=timestamp(row.deadline_at),
        start_at=timestamp(row.start_at),
        exclusive_key=row.exclusive_key or "",
        waits_for_run_id=str(row.waits_for or ""),
        begun_at=timestamp(row.begun_at),
        revision=row.revision,
        traceparent=row.traceparent or "",
        parent_run_id=str(row.parent_run or ""),
        parent_step=row.parent_step or 0,
        awaited_children=row.awaited_children,
        paused=row.paused,
        ending=run_pb2.RunStatus.Value(f"RUN_STATUS_{(row.ending or 'unspecified').upper()}"),
        uncompensated=row.uncompensated,
    )


def whole_run(snapshot: RunSnapshot, *, with_payloads: bool) -> run_pb2.Run:
    """Show a run with all that hangs on it; without payloads those of its steps are left out."""
    run = listed_run(snapshot.run)
    run.input = snapshot.run.input
    run.output = snapshot.run.output or b""
    attempts = _by_step(snapshot.attempts)
    run.steps.extend(
        _step(row, attempts[row.step], with_payloads=with_payloads) for row in snapshot.steps
    )
    run.effects.extend(_effect(row) for row in snapshot.effects)
    run.published.extend(_published(row) for row in snapshot.published)
    return run


def error_message(data: bytes | None, *, with_details: bool = True) -> run_pb2.RunError | None:
    """Show a stored error; its details stay byte for byte."""
    if data is None:
        return None
    error = decode_error(data)
    message = run_pb2.RunError(code=error.code, message=error.message, node=error.node)
    # `class` is a keyword of Python's.
    setattr(message, "class", error.category)
    message.details = (error.details or b"") if with_details else b""
    return message


def _by_step(attempts: Sequence[AttemptRow]) -> defaultdict[int, list[AttemptRow]]:
    grouped: defaultdict[int, list[AttemptRow]] = defaultdict(list)
    for row in attempts:
        grouped[row.step].append(row)
    return grouped


def _step(row: StepRow, attempts: Sequence[AttemptRow], *, with_payloads: bool) -> run_pb2.Step:
    return run_pb2.Step(
        step=row.step,
        node=row.node,
        scope=row.scope,
        kind=row.kind,
        status=run_pb2.StepStatus.Value(f"STEP_STATUS_{row.status.upper()}"),
        queue=f"{row.lane}:{row.owner}" if row.lane else "",
        attempt=row.failures + 1,
        failures=row.failures,
        losses=row.losses,
        fence=row.fence,
        worker=row.worker or "",
        input=row.input or b"",
        output=row.output or b"",
        error=error_message(row.error, with_details=with_payloads),
        created_at=timestamp(row.created_at),
        started_at=timestamp(row.started_at),
        ended_at=timestamp(row.ended_at),
        due_at=timestamp(row.due_at),
        child_run_id=str(row.child_run or ""),
        deadline_at=timestamp(row.deadline_at),
        waits_for=_awaited(row),
        attempts=[attempt_message(attempt, with_payloads=with_payloads) for attempt in attempts],
        progress=_progress(row),
        parked_on=row.parked_on or "",
        compensates=row.compensates or 0,
    )


def _progress(row: StepRow) -> run_pb2.Progress | None:
    if row.generation is None:
        return None
    return run_pb2.Progress(
        generation=row.generation,
        total=row.total or 0,
        begun=row.begun or 0,
        ended=row.ended or 0,
        failed=row.failed or 0,
    )


def scope_message(row: ScopeRow) -> run_pb2.Scope:
    """Show a scope of a step."""
    return run_pb2.Scope(
        path=row.path,
        index=row.index,
        status=row.status,
        item=row.item or b"",
        carry=row.carry or b"",
        output=row.output or b"",
        error=error_message(row.error),
    )


def _awaited(row: StepRow) -> run_pb2.SignalWait | None:
    if row.awaited is None:
        return None
    return run_pb2.SignalWait(name=row.awaited, key=row.awaited_key or "")


def attempt_message(row: AttemptRow, *, with_payloads: bool) -> run_pb2.Attempt:
    """Show a finished acquisition of a step; without payloads the details of its error go."""
    return run_pb2.Attempt(
        fence=row.fence,
        worker=row.worker,
        outcome=row.outcome,
        error=error_message(row.error, with_details=with_payloads),
        started_at=timestamp(row.started_at),
        ended_at=timestamp(row.ended_at),
    )


def _effect(row: EffectRow) -> run_pb2.Effect:
    return run_pb2.Effect(
        key=row.key,
        step=row.step,
        kind=row.kind,
        status=row.status,
        calls=row.calls,
        begun_at=timestamp(row.begun_at),
        settled_at=timestamp(row.settled_at),
    )


def _published(row: PublishedRow) -> run_pb2.Published:
    return run_pb2.Published(
        name=row.name,
        node=row.node,
        value=row.value or b"",
        published_at=timestamp(row.published_at),
    )
